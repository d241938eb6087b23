// Engines whose experts lie in host memory, where the CPU computes them, while
// all else is on a device: the planned memory of both, the tokens of an engine
// that is on the CPU alone, and the same bits in any batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/session_fixture.h"
#include "tests/worker/random_model.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::LoadOptions;
using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kEmulatedDevice;
using ::plimsoll::testing::kFarDevice;
using ::plimsoll::testing::OpenTestDevice;
using ::plimsoll::testing::RepeatingPrompt;
using ::plimsoll::testing::SameBits;
using ::testing::HasSubstr;

constexpr int64_t kAll = LoadOptions::kMaxCpuExperts;
// Emulated prompts take long.
constexpr int64_t kFewRows = 40;

class CpuExpertsTest : public plimsoll::testing::EngineFixture,
                       public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    auto device = OpenTestDevice(GetParam(), Precision::kExact);
    if (absl::IsInvalidArgument(device.status())) {
      GTEST_SKIP() << "this build has no emulated CUDA";
    }
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  void TearDown() override { engine_.reset(); }

  // An engine on the device with the experts of so many layers on the CPU.
  void LoadWith(int64_t n_layers, const char* model, EngineSetup setup) {
    setup.device = device_.get();
    setup.n_cpu_experts = n_layers;
    if (!setup.n_ctx) setup.n_ctx = 128;
    Load(model, setup);
  }

  Generated Say() { return Generate(*engine_, Greedy(RandomIds(30, 7), 8)); }

  std::unique_ptr<ComputeDevice> device_;  // outlives its engine
};

INSTANTIATE_TEST_SUITE_P(All, CpuExpertsTest,
                         ::testing::Values(kFarDevice, kEmulatedDevice),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST_P(CpuExpertsTest, EveryModelTakesItsPlanAndGivesTheCpusTokens) {
  for (const char* const model :
       {"qwen3moe_q4_0", "qwen2moe_q8_0", "gpt_oss_q4_0", "gemma4_experts",
        "qwen3next_q8_0"}) {
    EngineSetup on_cpu = {.n_ctx = 128, .n_ubatch = kFewRows};
    on_cpu.device = &LocalCpu();
    Load(model, on_cpu);
    const Generated wanted = Say();
    ASSERT_TRUE(wanted.status.ok()) << wanted.status;
    int64_t device_bytes = INT64_MAX;
    int64_t host_bytes = -1;
    for (const int64_t n_layers : {int64_t{0}, int64_t{1}, kAll}) {
      SCOPED_TRACE(absl::StrCat(model, ", experts of ", n_layers, " layers"));
      LoadWith(n_layers, model, {.n_ctx = 128, .n_ubatch = kFewRows});
      const Generated got = Say();
      ASSERT_TRUE(got.status.ok()) << got.status;
      EXPECT_EQ(got.ids(), wanted.ids());
      const MemoryReport memory = engine_->Memory();
      EXPECT_EQ(memory.allocated_bytes, memory.planned_bytes);
      EXPECT_EQ(memory.host_allocated_bytes, memory.host_planned_bytes);
      EXPECT_EQ(memory.device_allocations_after_load, 0);
      const planner::MemoryPlan& plan = engine_->plan();
      const planner::Region* weights = plan.FindRegion("experts_host");
      const planner::Region* workspace = plan.FindRegion("experts_workspace");
      ASSERT_EQ(weights != nullptr, n_layers > 0);
      if (n_layers > 0) {
        EXPECT_EQ(memory.host_allocated_bytes,
                  weights->bytes + workspace->bytes);
      }
      EXPECT_LT(plan.arena_bytes, device_bytes);
      EXPECT_GE(plan.host_bytes, host_bytes);  // in whole huge pages
      device_bytes = plan.arena_bytes;
      host_bytes = plan.host_bytes;
    }
  }
}

TEST_P(CpuExpertsTest, AStreamHasTheSameBitsAloneAndBesideOthers) {
  LoadWith(kAll, "qwen3moe_q4_0", {.n_ctx = 128, .n_slots = 3, .n_ubatch = 16});
  const Generated alone = Generate(*engine_, Greedy(RandomIds(20, 1), 8));
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (const uint32_t seed : {2u, 1u, 3u}) {
    sinks.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(
        engine_->Submit(Greedy(RandomIds(20, seed), 8), sinks.back()).ok());
  }
  std::vector<Generated> all;
  for (const auto& sink : sinks) all.push_back(sink->Await());
  for (const Generated& one : all) EXPECT_TRUE(one.status.ok()) << one.status;
  EXPECT_TRUE(SameBits(alone, all[1]));
}

TEST_P(CpuExpertsTest, ChunksOfAPromptAndThreadsChangeNoBit) {
  std::optional<Generated> first;
  for (const int64_t n_ubatch : {kFewRows, int64_t{7}}) {
    for (const int n_threads : {1, 2}) {
      LoadWith(2, "gpt_oss_q4_0",
               {.n_ctx = 128, .n_ubatch = n_ubatch, .n_threads = n_threads});
      const Generated got = Say();
      ASSERT_TRUE(got.status.ok()) << got.status;
      if (!first) first = got;
      EXPECT_TRUE(SameBits(*first, got));
    }
  }
}

TEST_P(CpuExpertsTest, DraftsChangeNoBit) {
  int64_t n_drafted = 0;
  for (const char* const model :
       {"qwen3moe_q4_0", "qwen2moe_q8_0", "gpt_oss_q4_0", "gemma4_experts"}) {
    SCOPED_TRACE(model);
    LoadWith(kAll, model,
             {.n_ctx = 128,
              .n_ubatch = kFewRows,
              .n_draft = 4,
              .precision = Precision::kDefault});
    GenerateOptions request = Greedy(RepeatingPrompt(40), 16);
    const Generated plain = Generate(*engine_, request);
    request.draft_tokens = 4;
    const Generated guessed = Generate(*engine_, request);
    ASSERT_TRUE(guessed.status.ok()) << guessed.status;
    EXPECT_TRUE(SameBits(plain, guessed));
    n_drafted += guessed.info.n_drafted;
  }
  EXPECT_GT(n_drafted, 0);
}

TEST_P(CpuExpertsTest, RollsAsOnTheCpu) {
  GenerateOptions request = Greedy(RandomIds(188, 5), 8);
  request.roll.policy = ContextPolicy::kRoll;
  EngineSetup setup = {.n_ctx = 192, .n_ubatch = kFewRows};
  setup.device = &LocalCpu();
  Load("qwen2moe_q8_0", setup);
  const Generated on_cpu = Generate(*engine_, request);
  LoadWith(kAll, "qwen2moe_q8_0", setup);
  const Generated apart = Generate(*engine_, request);
  ASSERT_TRUE(apart.status.ok()) << apart.status;
  EXPECT_GT(apart.evictions.size(), 0u);
  EXPECT_EQ(apart.evictions.size(), on_cpu.evictions.size());
  EXPECT_EQ(apart.ids(), on_cpu.ids());
}

// A session's messages, each beside one prompt of all that was said.
class CpuExpertsSessionTest : public SessionTest {};

TEST_F(CpuExpertsSessionTest, RepliesHaveTheBitsOfOnePrompt) {
  const auto device = OpenTestDevice(kFarDevice, Precision::kDefault);
  ASSERT_TRUE(device.ok()) << device.status();
  EngineSetup setup = {.n_ctx = 256,
                       .n_slots = 2,
                       .n_cpu_experts = kAll,
                       .precision = Precision::kDefault,
                       .device = device->get(),
                       .prefix_cache_bytes = 0};
  Load("qwen3moe_q4_0", setup);
  Open(Chat("s"));
  const auto append = [](const Ids& more, Ids& ids) {
    ids.insert(ids.end(), more.begin(), more.end());
  };
  Ids ids = Frame().opening;
  for (const uint32_t turn : {1u, 2u, 3u}) {
    SCOPED_TRACE(turn);
    const Ids content = RandomIds(9, turn);
    const Generated reply = Say("s", content, 5);
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    if (turn > 1) append(Frame().after_reply, ids);
    append(content, ids);
    append(Frame().after_user, ids);
    const Generated fresh = Fresh(ids, 5);
    ASSERT_TRUE(fresh.status.ok()) << fresh.status;
    EXPECT_TRUE(SameBits(reply, fresh));
    append(reply.ids(), ids);
  }
  engine_.reset();  // before its device
}

// The load counts both arenas, and a fence may stop it in the host's part.
TEST_P(CpuExpertsTest, ALoadCountsAndFencesTheHostsPart) {
  int64_t arenas = 0;
  int64_t weights = 0;
  int64_t last = 0;
  EngineSetup setup = {.n_ctx = 128, .n_ubatch = kFewRows};
  setup.fence = [&](const LoadProgress& at) {
    (at.phase == "allocate" ? arenas : weights) = at.bytes_total;
    if (at.phase == "weights") {
      EXPECT_GT(at.bytes_done, last);
      last = at.bytes_done;
    }
    return absl::OkStatus();
  };
  LoadWith(kAll, "qwen3moe_q4_0", setup);
  const planner::MemoryPlan plan = engine_->plan();
  EXPECT_GT(arenas, plan.arena_bytes + plan.FindRegion("experts_host")->bytes);
  setup.device = device_.get();
  setup.n_cpu_experts = kAll;
  const int64_t stop_at = last;
  setup.fence = [stop_at](const LoadProgress& at) {
    const bool is_last = at.phase == "weights" && at.bytes_done == stop_at;
    return is_last ? absl::AbortedError("enough") : absl::OkStatus();
  };
  engine_.reset();
  EXPECT_TRUE(absl::IsAborted(
      plimsoll::testing::LoadEngine(file_->path(), setup).status()));
}

TEST_P(CpuExpertsTest, AModelInPartsHasNone) {
  const plimsoll::testing::TemporaryFile path(
      RandomModelBytes(FindRandomModel("qwen3moe_q4_0")));
  auto file = ModelFile::Open(path.path());
  ASSERT_TRUE(file.ok()) << file.status();
  LoadOptions load;
  load.n_ctx = 64;
  load.n_ubatch = 16;
  load.n_cpu_experts = 1;
  const auto plan = planner::Layout((*file)->shape(), {load},
                                    device_->Profile(), int64_t{1} << 40);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto slice = planner::SliceLayers((*file)->shape(), 0, 1);
  ASSERT_TRUE(slice.ok()) << slice.status();
  const auto part =
      planner::Layout(*slice, {load}, device_->Profile(), int64_t{1} << 40);
  EXPECT_TRUE(absl::IsInvalidArgument(part.status()));
  EXPECT_THAT(std::string(part.status().message()),
              HasSubstr("several devices"));
}

}  // namespace
}  // namespace plimsoll::worker
