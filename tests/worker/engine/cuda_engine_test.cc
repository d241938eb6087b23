// Engines on CUDA, emulated and on device 0, beside the same engines on the
// CPU: the same tokens, the planned memory, and no look of the host at the
// device's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "kernels/cuda/emulated_backend.h"
#include "tests/sanitized.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/regex_grammar.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kEmulatedDevice;
using ::plimsoll::testing::OpenTestDevice;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RepeatingPrompt;
using ::plimsoll::testing::SameBits;

constexpr char kDevice[] = "cuda:0";
// The rows of a step where prompts are short. A load runs 128 rows by default,
// which takes an emulator long.
constexpr int64_t kFewRows = 40;

bool IsAbsent(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsUnimplemented(status);
}

class CudaEngineTest : public plimsoll::testing::EngineFixture,
                       public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    auto device = OpenTestDevice(GetParam(), Precision::kDefault);
    if (GetParam() == std::string(kDevice) && IsAbsent(device.status())) {
      GTEST_SKIP() << "there is no CUDA device";
    }
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto invariant = OpenTestDevice(GetParam(), Precision::kInvariant);
    ASSERT_TRUE(invariant.ok()) << invariant.status();
    invariant_ = *std::move(invariant);
  }

  // An engine on the CPU and one on the device, of the same file.
  void LoadBoth(const char* model, EngineSetup setup) {
    Load(model, setup);
    if (setup.devices.empty()) setup.devices = {device_.get()};
    auto engine = plimsoll::testing::LoadEngine(file_->path(), setup);
    ASSERT_TRUE(engine.ok()) << engine.status();
    on_device_ = *std::move(engine);
  }

  // Expects the same tokens and evictions. Log-probabilities of logits below 64
  // differ only as much as float32 sums in another order do.
  void ExpectAlike(const GenerateOptions& request) {
    ExpectAlikeWithin(2e-3f, request);
  }
  void ExpectAlikeWithin(float tolerance, const GenerateOptions& request) {
    const Generated on_cpu = Generate(*engine_, request);
    const Generated on_device = Generate(*on_device_, request);
    ASSERT_TRUE(on_cpu.status.ok()) << on_cpu.status;
    ASSERT_TRUE(on_device.status.ok()) << on_device.status;
    EXPECT_EQ(on_cpu.ids(), on_device.ids());
    EXPECT_EQ(on_cpu.evictions.size(), on_device.evictions.size());
    ASSERT_EQ(on_cpu.tokens.size(), on_device.tokens.size());
    for (size_t i = 0; i < on_cpu.tokens.size(); ++i) {
      EXPECT_NEAR(on_cpu.tokens[i].logprob, on_device.tokens[i].logprob,
                  tolerance);
    }
    ASSERT_EQ(on_cpu.prompt_logprobs.size(), on_device.prompt_logprobs.size());
    for (size_t i = 0; i < on_cpu.prompt_logprobs.size(); ++i) {
      EXPECT_NEAR(on_cpu.prompt_logprobs[i], on_device.prompt_logprobs[i],
                  tolerance);
    }
  }

  // Steps of more than a few rows, and attention of prompts, lose the rounding
  // to F16, which shows in models of random weights.
  static constexpr float kRounded = 0.15f;

  std::unique_ptr<ComputeDevice> device_;     // outlives its engine
  std::unique_ptr<ComputeDevice> invariant_;  // rounds nothing to F16
  std::unique_ptr<Engine> on_device_;
};

INSTANTIATE_TEST_SUITE_P(All, CudaEngineTest,
                         ::testing::Values(kEmulatedDevice, kDevice),
                         [](const auto& test) {
                           return absl::StrReplaceAll(test.param, {{":", "_"}});
                         });

TEST_P(CudaEngineTest, GeneratesTheCpusTokensOfEveryModel) {
  constexpr size_t kEach = plimsoll::testing::kIsLong ? 1 : 4;
  const auto& models = plimsoll::testing::RandomModels();
  for (size_t i = 0; i < models.size(); i += kEach) {
    const auto& model = models[i];
    for (const Precision precision : {Precision::kExact, Precision::kDefault}) {
      // The goldens run exactly, too, so that is left to the long run.
      if (precision == Precision::kExact && !plimsoll::testing::kIsLong)
        continue;
      SCOPED_TRACE(model.name);
      EngineSetup setup = {
          .n_ctx = 128, .n_ubatch = kFewRows, .precision = precision};
      setup.devices = {invariant_.get()};
      LoadBoth(model.name.c_str(), setup);
      ExpectAlike(Greedy(RandomIds(30, 7), 8));
      setup.devices = {device_.get()};
      LoadBoth(model.name.c_str(), setup);
      ExpectAlikeWithin(kRounded, Greedy(RandomIds(30, 7), 8));
    }
  }
}

TEST_P(CudaEngineTest, GeneratesTheCpusTokensOfOtherFamilies) {
  // Each has goldens, too, which the emulator runs.
  constexpr size_t kEach = plimsoll::testing::kIsLong ? 1 : 6;
  const auto& models = plimsoll::testing::FamilyModels();
  for (size_t i = 0; i < models.size(); i += kEach) {
    const auto& model = models[i];
    SCOPED_TRACE(model.name);
    LoadBoth(model.name.c_str(), {.n_ctx = 128, .n_ubatch = kFewRows});
    GenerateOptions request = Greedy(RandomIds(30, 7), 8);
    request.prompt_logprobs = true;
    ExpectAlike(request);
    // One that is drawn: on a device, by its own kernels.
    request.sampling = {.temperature = 1, .top_k = 0, .seed = 3};
    ExpectAlike(request);
  }
}

TEST_P(CudaEngineTest, KeepsKeysAndValuesInEveryType) {
  std::vector<DType> types = {DType::kF16, DType::kQ8_0, DType::kQ4_0};
  if (plimsoll::testing::kIsLong) {
    types.push_back(DType::kBF16);
    types.push_back(DType::kQ5_1);
  }
  for (const DType type : types) {
    SCOPED_TRACE(DTypeName(type));
    EngineSetup setup = {.n_ctx = 128, .n_ubatch = kFewRows, .kv_type = type};
    setup.devices = {invariant_.get()};
    LoadBoth("gemma_q5_0", setup);
    // A key in the middle between two numbers of the type may become either,
    // which are 2^-7 apart and more, or an eighth of that for F16.
    constexpr float kTolerance = 5e-2f;
    ExpectAlikeWithin(type == DType::kF16 ? kTolerance / 8 : kTolerance,
                      Greedy(RandomIds(40, 3), 8));
    setup.devices = {device_.get()};
    LoadBoth("gemma_q5_0", setup);
    ExpectAlikeWithin(kRounded, Greedy(RandomIds(40, 3), 8));
  }
}

TEST_P(CudaEngineTest, RollsAsOnTheCpu) {
  std::vector<const char*> models = {"gemma_q5_0"};
  if (plimsoll::testing::kIsLong) {
    models.push_back("deepseek2_q8_0");
    models.push_back("llama_q4_1");
    models.push_back("gemma4_shared");
  }
  for (const char* model : models) {
    for (const RollMethod method :
         {RollMethod::kShift, RollMethod::kRecompute}) {
      SCOPED_TRACE(model);
      LoadBoth(model, {.n_ctx = 192});
      GenerateOptions request = Greedy(RandomIds(188, 5), 8);
      request.roll.policy = ContextPolicy::kRoll;
      request.roll.method = method;
      ExpectAlike(request);
    }
  }
}

TEST_P(CudaEngineTest, AStreamHasTheSameBitsAloneAndBesideOthers) {
  LoadBoth("gemma_q5_0", {.n_ctx = 128, .n_slots = 3, .n_ubatch = 16});
  const Generated alone = Generate(*on_device_, Greedy(RandomIds(20, 1), 8));
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (const uint32_t seed : {2u, 1u, 3u}) {
    sinks.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(
        on_device_->Submit(Greedy(RandomIds(20, seed), 8), sinks.back()).ok());
  }
  std::vector<Generated> all;
  for (const auto& sink : sinks) all.push_back(sink->Await());
  for (const Generated& one : all) EXPECT_TRUE(one.status.ok()) << one.status;
  EXPECT_TRUE(SameBits(alone, all[1]));
}

TEST_P(CudaEngineTest, DraftsChangeNoBit) {
  LoadBoth("gemma_q5_0", {.n_ctx = 128, .n_ubatch = kFewRows, .n_draft = 4});
  const Generated plain =
      Generate(*on_device_, Greedy(RepeatingPrompt(40), 16));
  GenerateOptions request = Greedy(RepeatingPrompt(40), 16);
  request.draft_tokens = 4;
  const Generated guessed = Generate(*on_device_, request);
  ASSERT_TRUE(guessed.status.ok()) << guessed.status;
  EXPECT_GT(guessed.info.n_drafted, 0);
  EXPECT_TRUE(SameBits(plain, guessed));
  ExpectAlike(request);
}

TEST_P(CudaEngineTest, DrawsFromWholeRows) {
  LoadBoth("llama_q4_1", {.n_ctx = 128, .n_ubatch = kFewRows});
  GenerateOptions request = GreedyWithTop(RandomIds(10, 9), 12, -1);
  request.sampling = {.temperature = 0.9f, .top_k = 0, .seed = 4};
  ExpectAlike(request);
  request.sampling.top_p = 1;
  request.sampling.min_p = 0;
  ExpectAlike(request);
  request.logit_bias.repetition_penalty = 1.3f;
  request.logit_bias.biases = {{.id = 40, .bias = 3.0f}};
  ExpectAlike(request);
  request.sampling = {.temperature = 0};
  request.top_logprobs = 5;
  ExpectAlike(request);
}

TEST_P(CudaEngineTest, HoldsRepliesToTheirConstraint) {
  LoadBoth("llama_q4_1", {.n_ctx = 128, .n_ubatch = kFewRows});
  GenerateOptions request = GreedyWithTop(RandomIds(10, 9), 12, -1);
  request.ignore_eos = false;
  const auto grammar = CompileRegex("[a-z]{3,6}");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  request.constraint = *grammar;
  ExpectAlike(request);
}

TEST_P(CudaEngineTest, ScoresPrompts) {
  LoadBoth("gemma_q5_0", {.n_ctx = 128, .n_ubatch = kFewRows});
  GenerateOptions request = Greedy(RandomIds(30, 2), 1);
  request.prompt_logprobs = true;
  ExpectAlike(request);
}

TEST_P(CudaEngineTest, SharesBeginningsOfPrompts) {
  LoadBoth("gemma_q5_0",
           {.n_ctx = 128, .n_ubatch = kFewRows, .n_idle_sessions = 1});
  const GenerateOptions request = Greedy(RandomIds(80, 2), 3);
  const Generated first = Generate(*on_device_, request);
  const Generated second = Generate(*on_device_, request);
  EXPECT_EQ(first.info.n_cached, 0);
  EXPECT_GT(second.info.n_cached, 0);
  EXPECT_TRUE(SameBits(first, second));
}

// Layers on the CPU and on the device, in both orders and in turns.
TEST_P(CudaEngineTest, SharesAModelsLayersWithTheHost) {
  const ComputeDevice* const cpu = &LocalCpu();
  const ComputeDevice* const device = device_.get();
  struct {
    std::vector<const ComputeDevice*> devices;
    std::vector<int64_t> cuts;
  } const splits[] = {{{cpu, device}, {5}},
                      {{device, cpu}, {6}},
                      {{device, device}, {3}},
                      {{device, cpu, device}, {2, 6}}};
  for (const auto& split : splits) {
    SCOPED_TRACE(split.cuts.front());
    LoadBoth("gemma_q5_0", {.n_ctx = 64,
                            .n_ubatch = kFewRows,
                            .devices = split.devices,
                            .cuts = split.cuts});
    ExpectAlike(Greedy(RandomIds(20, 7), 4));
    for (size_t i = 0; i < split.devices.size(); ++i) {
      const MemoryReport memory = on_device_->MemoryOf(i);
      EXPECT_EQ(memory.allocated_bytes, memory.planned_bytes);
      EXPECT_EQ(memory.device_allocations_after_load, 0);
    }
    EXPECT_GT(on_device_->Memory().device_taken_bytes.value_or(0), 0);
  }
}

// The device has the layer in pages, the host those in rings.
TEST_P(CudaEngineTest, DoesAllOfItWithASplitModel) {
  LoadBoth("gemma_q5_0", {.n_ctx = 192,
                          .n_slots = 2,
                          .n_ubatch = 50,
                          .n_idle_sessions = 2,
                          .n_draft = 4,
                          .devices = {&LocalCpu(), device_.get(), &LocalCpu()},
                          .cuts = {5, 6}});
  GenerateOptions rolling = Greedy(RandomIds(188, 5), 8);
  rolling.roll.policy = ContextPolicy::kRoll;
  ExpectAlike(rolling);
  GenerateOptions scored = Greedy(RandomIds(30, 2), 1);
  scored.prompt_logprobs = true;
  ExpectAlike(scored);
  const GenerateOptions shared = Greedy(RandomIds(80, 7), 4);
  const Generated first = Generate(*on_device_, shared);
  const Generated second = Generate(*on_device_, shared);
  EXPECT_GT(second.info.n_cached, 0);
  EXPECT_TRUE(SameBits(first, second));
  GenerateOptions request = Greedy(RepeatingPrompt(40), 16);
  const Generated plain = Generate(*on_device_, request);
  request.draft_tokens = 4;
  const Generated guessed = Generate(*on_device_, request);
  EXPECT_GT(guessed.info.n_drafted, 0);
  EXPECT_TRUE(SameBits(plain, guessed));
}

// The device and the host work on pieces of a prompt at the same time, the
// device's operations on a thread of their own.
TEST_P(CudaEngineTest, PiecesOfPromptsChangeNoBit) {
  const ComputeDevice* const cpu = &LocalCpu();
  const ComputeDevice* const device = device_.get();
  const GenerateOptions request = Greedy(RandomIds(100, 7), 4);
  const std::vector<const ComputeDevice*> orders[] = {
      {device, cpu}, {cpu, device}, {device, cpu, device}};
  for (const auto& devices : orders) {
    EngineSetup setup = {.n_ctx = 128, .devices = devices, .cuts = {3}};
    if (devices.size() == 3) setup.cuts = {2, 6};
    setup.piece_rows = 0;
    LoadBoth("gemma_q5_0", setup);
    const Generated whole = Generate(*on_device_, request);
    setup.piece_rows = 13;
    LoadBoth("gemma_q5_0", setup);
    EXPECT_TRUE(SameBits(whole, Generate(*on_device_, request)));
  }
}

// Default products round more if there are many rows.
TEST_P(CudaEngineTest, InvariantPromptsHaveTheSameBitsInAnyChunks) {
  constexpr int64_t kManyRows = 140;
  const GenerateOptions request = Greedy(RandomIds(kManyRows, 11), 3);
  for (const Precision precision :
       {Precision::kDefault, Precision::kInvariant}) {
    const auto device = *OpenTestDevice(GetParam(), precision);
    EngineSetup setup = {.n_ctx = 192, .devices = {device.get()}};
    setup.precision = precision;
    setup.n_ubatch = kManyRows;
    LoadBoth("llama_q4_1", setup);
    const Generated whole = Generate(*on_device_, request);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    setup.n_ubatch = kFewRows;
    LoadBoth("llama_q4_1", setup);
    const Generated cut = Generate(*on_device_, request);
    EXPECT_EQ(SameBits(whole, cut), precision == Precision::kInvariant);
    ASSERT_EQ(whole.ids(), cut.ids());
    for (size_t i = 0; i < cut.tokens.size(); ++i) {
      // Rounding to F16 loses 2^-12 of logits below 64, and more in sums.
      EXPECT_NEAR(whole.tokens[i].logprob, cut.tokens[i].logprob, 5e-2f);
    }
    on_device_ = nullptr;  // before its device
  }
}

// What the device's free bytes go down by, and the context that was there
// before, are the plan's total: never more, and little less.
TEST_P(CudaEngineTest, TakesWhatThePlanSaysAndGivesItBack) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  const int64_t before = device_->Profile().free_bytes;
  LoadBoth("gemma_q5_0", {.n_ctx = 4'096, .n_slots = 4});
  const planner::MemoryPlan& plan = on_device_->plan();
  const MemoryReport memory = on_device_->Memory();
  EXPECT_EQ(memory.allocated_bytes, memory.planned_bytes);
  ASSERT_TRUE(memory.device_taken_bytes.has_value());
  const planner::Region* runtime = plan.FindRegion("runtime");
  ASSERT_NE(runtime, nullptr);
  EXPECT_GE(*memory.device_taken_bytes, memory.allocated_bytes);
  const int64_t taken = *memory.device_taken_bytes + runtime->bytes;
  // The load has made the graphs, for which there are 32 MiB.
  EXPECT_LE(*memory.device_taken_bytes,
            plan.total_bytes - (runtime->bytes - (32 + 8) * kMebibyte));
  EXPECT_LE(plan.total_bytes, taken + taken / 100 + 32 * kMebibyte);
  Generate(*on_device_, Greedy(RandomIds(20, 1), 4));
  EXPECT_EQ(on_device_->Memory().device_allocations_after_load, 0);
  EXPECT_EQ(device_->Profile().free_bytes, before - *memory.device_taken_bytes);
  on_device_.reset();
  // A driver may keep what it took for graphs and streams for the next ones.
  const int64_t kept = before - device_->Profile().free_bytes;
  EXPECT_LE(kept, GetParam() == std::string(kDevice) ? 40 * kMebibyte : 0);
}

TEST_P(CudaEngineTest, TheProfileSaysWhatThePlannerNeeds) {
  const planner::DeviceProfile profile = device_->Profile();
  EXPECT_TRUE(planner::ValidateProfile(profile).ok());
  EXPECT_EQ(profile.kind, "cuda");
  EXPECT_GT(profile.free_bytes, 0);
  EXPECT_LT(profile.free_bytes, profile.total_bytes);
  EXPECT_EQ(profile.runtime_basis, planner::Basis::kMeasured);
  EXPECT_GT(profile.runtime_bytes, 0);
  EXPECT_GT(profile.workspace.kernel_scratch_bytes, 0);
  EXPECT_NE(planner::FindStorageRule(profile, DType::kQ4_0), nullptr);
  EXPECT_FALSE(device_->unique_id().empty());
  EXPECT_FALSE(device_->is_host());
}

// The tokenizer's tables are in the host's memory, not in the plan's total.
TEST_P(CudaEngineTest, PlansHostMemoryApart) {
  LoadBoth("llama_f32", {.n_ctx = 64});
  const planner::MemoryPlan& plan = on_device_->plan();
  ASSERT_NE(plan.FindRegion("vocab"), nullptr);
  EXPECT_TRUE(plan.FindRegion("vocab")->on_host);
  EXPECT_GT(plan.host_bytes, 0);
  EXPECT_FALSE(on_device_->Memory().vocab_on_device);
  EXPECT_TRUE(engine_->Memory().vocab_on_device);
}

TEST(AcceleratorTest, NothingIsFreeOnADeviceThatDoesNotAnswer) {
  bool is_lost = false;
  const auto device =
      OpenAccelerator([] { return kernels::NewEmulatedCudaBackend(); },
                      [&]() -> absl::StatusOr<kernels::DeviceMemory> {
                        if (is_lost) return absl::UnavailableError("lost");
                        return kernels::ReadEmulatedCudaMemory();
                      });
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_GT((*device)->Profile().free_bytes, 0);
  is_lost = true;
  EXPECT_EQ((*device)->Profile().free_bytes, 0);
  EXPECT_GT((*device)->Profile().total_bytes, 0);
}

TEST(AcceleratorTest, PlansTheCommittedRuntimeWhereNobodyMeasured) {
  const auto device =
      OpenAccelerator([] { return kernels::NewEmulatedCudaBackend(); },
                      []() -> absl::StatusOr<kernels::DeviceMemory> {
                        return kernels::DeviceMemory{100, 90, 0};
                      });
  ASSERT_TRUE(device.ok()) << device.status();
  const planner::DeviceProfile profile = (*device)->Profile();
  EXPECT_EQ(profile.runtime_bytes,
            planner::CommittedGpuProfile().runtime_bytes);
  EXPECT_EQ(profile.runtime_basis, planner::Basis::kEstimated);
}

}  // namespace
}  // namespace plimsoll::worker
