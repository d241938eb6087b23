// Engines whose model's layers lie on several devices, beside the same models
// on one: the same bits, the planned memory, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "planner/layout/layer_split.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/split_fixture.h"
#include "tests/worker/random_model.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine.h"
#include "worker/graph/decoder/stage.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::HookedDevice;
using ::plimsoll::testing::LosableDevice;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

planner::LoadOptions ContextOf(int64_t n_ctx) {
  planner::LoadOptions load;
  load.n_ctx = n_ctx;
  return load;
}

class SplitEngineTest : public plimsoll::testing::EngineFixture {
 protected:
  // Parts of the file's model, each planned for the CPU.
  std::vector<EnginePart> Parts(const Cuts& cuts,
                                const planner::LoadOptions& load) {
    std::vector<EnginePart> parts;
    const planner::ModelShape& shape = opened_->shape();
    for (size_t i = 0; i <= cuts.size(); ++i) {
      const int64_t first = i == 0 ? 0 : cuts[i - 1];
      const int64_t n = (i == cuts.size() ? shape.n_layers : cuts[i]) - first;
      const auto slice = planner::SliceLayers(shape, first, n);
      EXPECT_TRUE(slice.ok()) << slice.status();
      const auto plan = planner::Layout(*slice, {load}, LocalCpu().Profile(),
                                        int64_t{1} << 40);
      EXPECT_TRUE(plan.ok()) << plan.status();
      parts.push_back({nullptr, first, n, *plan});
    }
    return parts;
  }
  absl::Status LoadParts(std::vector<EnginePart> parts) {
    EngineOptions options;
    options.n_threads = 2;
    options.clock = absl::Now;
    auto engine =
        Engine::Load(*opened_, std::move(parts), options,
                     [](const LoadProgress&) { return absl::OkStatus(); });
    if (engine.ok()) engine_ = *std::move(engine);
    return engine.status();
  }
  void Open(const char* model) {
    file_.emplace(plimsoll::testing::RandomModelBytes(FindRandomModel(model)));
    auto opened = ModelFile::Open(file_->path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    opened_ = *std::move(opened);
  }

  std::unique_ptr<ModelFile> opened_;
};

class SplitFamilyTest : public SplitEngineTest,
                        public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    Models, SplitFamilyTest,
    ::testing::Values("llama_half", "llama_q4_1", "gemma_q5_0", "gemma_k",
                      "deepseek2_q8_0", "lfm2_q8_0", "nemotron_h_q8_0"),
    [](const auto& test) { return std::string(test.param); });

TEST_P(SplitFamilyTest, EveryCutHasTheBitsOfTheWholeModel) {
  const std::vector<GenerateOptions> requests = Requests();
  Load(GetParam(), SplitAt({}));
  const std::vector<Generated> whole = EachAlone(*engine_, requests);
  EXPECT_GT(whole[1].info.n_cached, 0);
  EXPECT_GT(whole[2].evictions.size(), 0u);
  EXPECT_GT(whole[4].info.n_accepted, 0);
  int64_t whole_reserved = 0;
  const std::vector<Generated> chat = ChatWith(*engine_, whole_reserved);
  for (const Cuts& cuts : CutsOf(FindRandomModel(GetParam()).n_layers)) {
    SCOPED_TRACE(absl::StrJoin(cuts, ","));
    Load(GetParam(), SplitAt(cuts));
    ASSERT_EQ(engine_->parts().size(), cuts.size() + 1);
    ExpectSame(whole, EachAlone(*engine_, requests));
    int64_t reserved = 0;
    ExpectSame(chat, ChatWith(*engine_, reserved));
    EXPECT_EQ(reserved, whole_reserved);
    plimsoll::testing::ExpectMixesChangeNothing(*engine_, requests, whole, 3,
                                                /*seed=*/7);
    EXPECT_EQ(engine_->Memory().device_allocations_after_load, 0);
  }
}

TEST_P(SplitFamilyTest, ExactPrecisionHasTheSameBitsToo) {
  EngineSetup setup = SplitAt({});
  setup.precision = Precision::kExact;
  setup.kv_type = DType::kF32;
  const GenerateOptions request = Greedy(RandomIds(60, 1), 30);
  Load(GetParam(), setup);
  const Generated whole = Generate(*engine_, request);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (const Cuts& cuts : CutsOf(FindRandomModel(GetParam()).n_layers)) {
    SCOPED_TRACE(absl::StrJoin(cuts, ","));
    setup.cuts = cuts;
    Load(GetParam(), setup);
    EXPECT_TRUE(SameBits(whole, Generate(*engine_, request)));
  }
}

TEST_F(SplitEngineTest, OneBookOfPagesIsKeptForAllParts) {
  EngineSetup setup = SplitAt({5, 6});  // rings, pages, rings
  setup.kv_tokens = 256;
  Load("gemma_q5_0", setup);
  const std::vector<Generated> alone = EachAlone(*engine_, Requests());
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (int i = 0; i < 2; ++i) {
    for (const GenerateOptions& request : Requests()) {
      sinks.push_back(std::make_shared<CollectSink>());
      ASSERT_TRUE(engine_->Submit(request, sinks.back()).ok());
    }
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_TRUE(SameBits(alone[i % alone.size()], sinks[i]->Await()));
  }
  EXPECT_EQ(engine_->CurrentLoad().kv_pages, 4);
}

TEST_F(SplitEngineTest, EveryPartHasWhatItsPlanSays) {
  Load("gemma_q5_0", SplitAt({2, 5}));
  const std::vector<EnginePart>& parts = engine_->parts();
  ASSERT_EQ(parts.size(), 3u);
  int64_t allocated = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const MemoryReport memory = engine_->MemoryOf(i);
    EXPECT_EQ(memory.allocated_bytes, memory.planned_bytes);
    EXPECT_GE(memory.allocated_bytes, parts[i].plan.arena_bytes);
    allocated += memory.allocated_bytes;
  }
  EXPECT_EQ(engine_->Memory().allocated_bytes, allocated);
  EXPECT_EQ(engine_->Memory().planned_bytes, allocated);
  EXPECT_EQ(engine_->plan().arena_bytes, parts[0].plan.arena_bytes);
  EXPECT_EQ(parts[2].first_layer, 5);
}

TEST_F(SplitEngineTest, ALoadCountsTheBytesOfAllParts) {
  std::vector<int64_t> done;
  int64_t total = 0;
  EngineSetup setup = SplitAt({1, 2});
  setup.fence = [&](const LoadProgress& at) {
    if (at.phase != "weights") return absl::OkStatus();
    done.push_back(at.bytes_done);
    total = at.bytes_total;
    return absl::OkStatus();
  };
  Load("llama_q4_1", setup);
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_LE(done.back(), total);
  int64_t file_bytes = 0;
  Open("llama_q4_1");
  for (const auto& tensor : opened_->shape().weights) {
    file_bytes += tensor.file_bytes;
    // The first and the last part have it.
    if (tensor.name == "token_embd.weight") file_bytes += tensor.file_bytes;
  }
  EXPECT_EQ(total, file_bytes);
}

TEST_F(SplitEngineTest, RefusesPartsThatAreNotAllLayersInOrder) {
  Open("gemma_k");
  const planner::LoadOptions load = ContextOf(64);
  const std::vector<EnginePart> good = Parts({1}, load);
  ASSERT_TRUE(LoadParts(good).ok());
  const auto expect_refused = [&](std::vector<EnginePart> parts,
                                  const char* why) {
    const absl::Status status = LoadParts(std::move(parts));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  expect_refused({}, "no parts");
  expect_refused({good[0]}, "1 parts have 1 layers, the model has 3");
  expect_refused({good[1]}, "part 0 has 2 layers from 1 on");
  expect_refused({good[0], good[0]}, "must begin with layer 1");
  expect_refused({good[0], good[1], good[1]}, "part 2 has 2 layers from 1 on");
  std::vector<EnginePart> parts = good;
  parts[1].n_layers = 3;
  expect_refused(parts, "part 1 has 3 layers from 1 on");
  parts = good;
  parts[1].plan = Parts({2}, load)[1].plan;
  expect_refused(parts, "the plan of part 1 has");
}

TEST_F(SplitEngineTest, RefusesACutBetweenLayersThatShareKeysAndValues) {
  Open("gemma_k");
  const std::vector<EnginePart> parts = Parts({2}, ContextOf(64));
  planner::ModelShape shape = opened_->shape();
  EXPECT_TRUE(StagesOf(shape, parts).ok());
  shape.layers[2].kv_source = 0;
  const absl::Status status = StagesOf(shape, parts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("reads keys and values of layer 0"));
}

TEST_F(SplitEngineTest, RefusesPlansThatAreNotAlike) {
  Open("gemma_k");
  planner::LoadOptions load = ContextOf(64);
  load.n_slots = 2;
  const std::vector<EnginePart> good = Parts({1}, load);
  const auto expect_refused = [&](auto change, const char* why) {
    planner::LoadOptions other = load;
    change(other);
    std::vector<EnginePart> parts = good;
    parts[1] = Parts({1}, other)[1];
    const absl::Status status = LoadParts(std::move(parts));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("differ in ", why)));
  };
  using Options = planner::LoadOptions;
  expect_refused([](Options& o) { o.n_ctx = 128; }, "n_ctx: 64 and 128");
  expect_refused([](Options& o) { o.n_slots = 3; }, "n_slots: 2 and 3");
  expect_refused([](Options& o) { o.n_ubatch = 32; }, "n_ubatch: 512 and 32");
  expect_refused([](Options& o) { o.n_draft = 1; }, "n_draft: 0 and 1");
  expect_refused([](Options& o) { o.n_idle_sessions = 1; }, "n_idle_sessions");
  expect_refused([](Options& o) { o.n_parked = 1; }, "n_parked");
  expect_refused([](Options& o) { o.k_type = DType::kF32; }, "k_type");
  expect_refused([](Options& o) { o.v_type = DType::kF32; }, "v_type");
  expect_refused([](Options& o) { o.kv_tokens = 64; }, "pages: 2 and 1");
  std::vector<EnginePart> parts = good;
  parts[1].plan.fits = false;
  EXPECT_EQ(LoadParts(parts).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SplitEngineTest, ADeviceLostInAnyPartIsTheEnginesLoss) {
  for (const size_t lost : {0u, 1u, 2u}) {
    SCOPED_TRACE(lost);
    LosableDevice device;
    std::vector<absl::Status> told;
    EngineSetup setup = SplitAt({2, 5});
    setup.devices = {&LocalCpu(), &LocalCpu(), &LocalCpu()};
    setup.devices[lost] = &device;
    setup.on_device_lost = [&told](const absl::Status& error) {
      told.push_back(error);
      return absl::UnavailableError("the device is lost");
    };
    Load("gemma_q5_0", setup);
    const GenerateOptions request = Greedy(RandomIds(20, 1), 3);
    EXPECT_TRUE(Generate(*engine_, request).status.ok());
    device.Lose();
    EXPECT_EQ(Generate(*engine_, request).status,
              absl::UnavailableError("the device is lost"));
    EXPECT_EQ(Generate(*engine_, request).status,
              absl::UnavailableError("the device is lost"));
    engine_.reset();
    EXPECT_EQ(told.size(), 1u);
  }
}

// Each device of its own has seen steps of every size.
TEST_F(SplitEngineTest, WarmsUpEveryDevice) {
  std::vector<int64_t> begun[2];
  const HookedDevice first(
      {.begun = [&](int64_t n_rows) { begun[0].push_back(n_rows); }});
  const HookedDevice second(
      {.begun = [&](int64_t n_rows) { begun[1].push_back(n_rows); }});
  EngineSetup setup = SplitAt({2, 5});
  setup.devices = {&first, &LocalCpu(), &second};
  Load("gemma_q5_0", setup);
  EXPECT_THAT(begun[0], ElementsAre(18, 3, 1, 2));
  EXPECT_THAT(begun[1], ElementsAre(18, 3, 1, 2));
  Generate(*engine_, Greedy(RandomIds(20, 1), 3));
  EXPECT_THAT(begun[0], ElementsAre(18, 3, 1, 2, 1, 1));
  EXPECT_THAT(begun[1], ElementsAre(18, 3, 1, 2, 1, 1));
}

TEST_F(SplitEngineTest, MemoryTakenOfADeviceIsCountedOnce) {
  const HookedDevice device({});
  EngineSetup setup = SplitAt({2, 5});
  setup.devices = {&device, &LocalCpu(), &device};
  Load("gemma_q5_0", setup);
  EXPECT_TRUE(engine_->MemoryOf(0).device_taken_bytes.has_value());
  EXPECT_FALSE(engine_->MemoryOf(1).device_taken_bytes.has_value());
  EXPECT_FALSE(engine_->MemoryOf(2).device_taken_bytes.has_value());
  EXPECT_EQ(engine_->Memory().device_taken_bytes,
            engine_->MemoryOf(0).device_taken_bytes);
}

}  // namespace
}  // namespace plimsoll::worker
