// A load makes every graph that an engine's steps need, whatever streams there
// are beside each other.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cuda/emulated_backend.h"
#include "tests/sanitized.h"
#include "tests/worker/device/hooked_backend.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::BackendHooks;
using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::HookedBackend;
using ::plimsoll::testing::kIsLong;
using ::plimsoll::testing::kIsSanitized;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RepeatingPrompt;

class CudaGraphsTest : public plimsoll::testing::EngineFixture {
 protected:
  // Loads the model on the emulator, and counts from then on.
  void LoadCounted(const char* model, EngineSetup setup) {
    auto device = OpenAccelerator(
        [this]() -> absl::StatusOr<std::unique_ptr<kernels::Backend>> {
          ASSIGN_OR_RETURN(auto backend, kernels::NewEmulatedCudaBackend());
          BackendHooks hooks;
          hooks.begun = [this](int64_t) { ++n_steps_; };
          return std::make_unique<HookedBackend>(std::move(backend), hooks);
        },
        kernels::ReadEmulatedCudaMemory);
    ASSERT_TRUE(device.ok()) << device.status();
    engine_.reset();
    device_ = *std::move(device);
    setup.device = device_.get();
    Load(model, setup);
    at_load_ = kernels::ReadEmulatedGraphCounts();
    n_steps_ = 0;
  }
  // Before its device.
  void TearDown() override { engine_.reset(); }

  // `n` streams at a time, all but the first with guesses.
  void Decode(int64_t n, const GenerateOptions& request) {
    std::vector<std::shared_ptr<CollectSink>> sinks;
    for (int64_t i = 0; i < n; ++i) {
      sinks.push_back(std::make_shared<CollectSink>());
      GenerateOptions one = request;
      one.max_tokens += i % 5;
      if (i > 0) one.draft_tokens = 4;
      ASSERT_TRUE(engine_->Submit(one, sinks.back()).ok());
    }
    for (const auto& sink : sinks) {
      const Generated reply = sink->Await();
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      n_drafted_ += reply.info.n_drafted;
    }
  }

  // Every step that decodes was a graph of the load's.
  void ExpectNoneBuilt() {
    const auto counts = kernels::ReadEmulatedGraphCounts();
    EXPECT_EQ(counts.built, at_load_.built);
    EXPECT_EQ(counts.launched - at_load_.launched, n_steps_);
    EXPECT_GT(n_steps_, 0);
  }

  std::unique_ptr<ComputeDevice> device_;
  kernels::EmulatedGraphCounts at_load_;
  std::atomic<int64_t> n_steps_ = 0;  // steps that only decode
  int64_t n_drafted_ = 0;
};

// With more streams than those of which each number has a graph of its own.
TEST_F(CudaGraphsTest, NoneIsBuiltAfterTheLoad) {
  // Beyond the 128 keys of a span.
  std::vector<int32_t> longest = RandomIds(84, 4);
  for (const int32_t id : RepeatingPrompt(40)) longest.push_back(id);
  std::vector<const char*> models = {"gemma_q5_0"};
  if (kIsLong && !kIsSanitized) {
    models.push_back("gemma4_shared");
    models.push_back("llama_q4_1");
  }
  for (const char* model : models) {
    SCOPED_TRACE(model);
    LoadCounted(model, {.n_ctx = 192,
                        .n_slots = 20,
                        .n_ubatch = 100,
                        .n_draft = 4,
                        .kv_type = DType::kF16,
                        .precision = Precision::kDefault});
    Decode(20, GreedyWithTop(RepeatingPrompt(12), 6, 0));
    Decode(2, GreedyWithTop(longest, 8, 0));
    ExpectNoneBuilt();
  }
}

// With the second rotation of queries that look at what is pinned.
TEST_F(CudaGraphsTest, NoneIsBuiltForSequencesThatRoll) {
  LoadCounted("gemma_q5_0", {.n_ctx = 192, .n_slots = 2, .n_draft = 4});
  GenerateOptions request = Greedy(RandomIds(188, 5), 8);
  request.roll.policy = ContextPolicy::kRoll;
  request.roll.method = RollMethod::kShift;
  request.roll.pin_tokens = 10;
  Decode(2, request);
  Decode(2, Greedy(RepeatingPrompt(40), 16));
  EXPECT_GT(n_drafted_, 0);
  ExpectNoneBuilt();
}

}  // namespace
}  // namespace plimsoll::worker
