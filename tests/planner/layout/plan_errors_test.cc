// Shapes, options and devices that no plan can be made of: each is refused by
// the name of what is wrong, and what overflows is said to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "planner/layout/explain.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/plan_regions.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

// What a plan is made of.
struct Request {
  ModelShape shape = Gemma270m();
  PlanOptions options = {};
  DeviceProfile profile = CommittedCpuProfile();
  int64_t budget_bytes = kGiB;
};

struct Case {
  const char* words;
  std::function<void(Request&)> change;
};

void ExpectRefused(absl::StatusCode code, std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    Request r;
    c.change(r);
    const absl::Status full =
        Layout(r.shape, r.options, r.profile, r.budget_bytes).status();
    const absl::Status numbers =
        LayoutNumbers(r.shape, r.options, r.profile, r.budget_bytes).status();
    EXPECT_EQ(full.code(), code) << c.words << ": " << full;
    EXPECT_THAT(std::string(full.message()), HasSubstr(c.words));
    EXPECT_EQ(numbers, full);
  }
}

TEST(PlanErrorsTest, ShapesOutsideTheirLimitsAreNamed) {
  ExpectRefused(
      absl::StatusCode::kInvalidArgument,
      {{"n_layers", [](Request& r) { r.shape.n_layers = 0; }},
       {"n_layers",
        [](Request& r) { r.shape.n_layers = ModelShape::kMaxLayers + 1; }},
       {"layers is 0", [](Request& r) { r.shape.layers.clear(); }},
       {"model_dim", [](Request& r) { r.shape.model_dim = -1; }},
       {"n_heads", [](Request& r) { r.shape.n_heads = kMax; }},
       {"vocab_size", [](Request& r) { r.shape.vocab_size = 0; }},
       {"n_ctx_train", [](Request& r) { r.shape.n_ctx_train = 0; }},
       {"n_kv_heads", [](Request& r) { r.shape.layers[1].n_kv_heads = 0; }},
       {"head_dim", [](Request& r) { r.shape.layers[1].head_dim = 513; }},
       {"ffn_dim", [](Request& r) { r.shape.layers[1].ffn_dim = kMax; }},
       {"window", [](Request& r) { r.shape.layers[1].window = -1; }}});
}

TEST(PlanErrorsTest, OptionsAndProfilesOutsideTheirLimitsAreNamed) {
  ExpectRefused(
      absl::StatusCode::kInvalidArgument,
      {{"n_ctx", [](Request& r) { r.options.n_ctx = 0; }},
       {"max_inference_len",
        [](Request& r) { r.options.max_inference_len = -1; }},
       {"n_slots",
        [](Request& r) { r.options.n_slots = LoadOptions::kMaxSlots + 1; }},
       {"n_ubatch", [](Request& r) { r.options.n_ubatch = 0; }},
       {"n_idle_sessions", [](Request& r) { r.options.n_idle_sessions = -1; }},
       {"idle_session_bytes",
        [](Request& r) { r.options.idle_session_bytes = -1; }},
       {"margin_bytes", [](Request& r) { r.options.margin_bytes = -1; }},
       {"ring_tokens",
        [](Request& r) {
          r.options.engine.ring_tokens = ModelShape::kMaxContext + 1;
        }},
       {"weight_bytes", [](Request& r) { r.options.engine.weight_bytes = 0; }},
       {"host_budget_bytes",
        [](Request& r) { r.options.host_budget_bytes = -1; }},
       {"k_type", [](Request& r) { r.options.k_type = DType::kQ6_K; }},
       {"v_type", [](Request& r) { r.options.v_type = DType::kI8; }},
       {"alignment", [](Request& r) { r.profile.alignment = 48; }},
       {"budget_bytes is -1", [](Request& r) { r.budget_bytes = -1; }}});
}

// Heads of 80 elements are whole blocks of f16, and of no quantised type.
void HeadsOf80(ModelShape& shape) {
  for (LayerShape& layer : shape.layers) layer.head_dim = 80;
}

TEST(PlanErrorsTest, TypesWhoseBlocksDoNotDivideAHeadAreAnError) {
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                {{"layer 0: a row of 80",
                  [](Request& r) {
                    HeadsOf80(r.shape);
                    r.options.k_type = DType::kQ8_0;
                  }},
                 {"80", [](Request& r) {
                    HeadsOf80(r.shape);
                    r.options.v_type = DType::kQ4_0;
                  }}});
}

TEST(PlanErrorsTest, AdviceLeavesOutTypesThatDoNotSuitTheModel) {
  Request r;
  HeadsOf80(r.shape);
  r.shape.weights[1].dtype = DType::kQ8_1;  // the device cannot run it anyway
  r.shape.weights[1].is_vector = false;
  for (const int64_t budget : {int64_t{1} << 20, 600 * (int64_t{1} << 20)}) {
    const auto plan = Layout(r.shape, r.options, r.profile, budget);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_FALSE(plan->not_runnable.empty());
    for (const Suggestion& suggestion : plan->suggestions) {
      EXPECT_FALSE(suggestion.change.kv_type);
    }
  }
}

TEST(PlanErrorsTest, WeightsThatCannotBeStoredAreNamed) {
  ExpectRefused(
      absl::StatusCode::kInvalidArgument,
      {{"\"w1\" is empty", [](Request& r) { r.shape.weights[1].cols = 0; }},
       {"\"w1\" is empty", [](Request& r) { r.shape.weights[1].rows = -1; }},
       {"\"w1\" is empty",
        [](Request& r) { r.shape.weights[1].n_matrices = 0; }},
       {"whole number", [](Request& r) { r.shape.weights[2].cols = 33; }}});
}

TEST(PlanErrorsTest, WeightsThatOverflowAreOutOfRange) {
  const auto many = [](int64_t bytes) {
    return WeightTensor{"x", DType::kF32, bytes, 1, true, 0, 0, 1};
  };
  ExpectRefused(
      absl::StatusCode::kOutOfRange,
      {{"int64", [&](Request& r) { r.shape.weights[1] = many(kMax / 2); }},
       {"int64", [](Request& r) { r.shape.weights[2].rows = kMax; }},
       {"int64", [](Request& r) { r.shape.weights[2].rows = kMax - 15; }},
       {"int64",
        [&](Request& r) {
          r.shape.weights = {many(kMax / 8), many(kMax / 8), many(kMax / 8)};
        }},
       {"int64",
        [](Request& r) {
          r.options.engine.host_weights.experts = true;
          for (WeightTensor& tensor : r.shape.weights) {
            tensor.kind = WeightKind::kExpert;
            tensor.file_bytes = kMax / 2;
          }
        }},
       {"int64", [](Request& r) {
          r.options.mmap_weights = true;
          for (WeightTensor& tensor : r.shape.weights) {
            tensor.file_bytes = kMax / 2;
          }
        }}});
}

TEST(PlanErrorsTest, PlansThatOverflowAreOutOfRange) {
  const auto reserve_first = [](Request& r) {
    r.options.engine.policy = ReservePolicy::kWindowed;
    r.shape.has_window_head_dim = true;
  };
  ExpectRefused(
      absl::StatusCode::kOutOfRange,
      {{"KV cache",
        [](Request& r) {
          r.shape.n_ctx_train = ModelShape::kMaxContext;
          r.options.n_ctx = ModelShape::kMaxContext;
          r.options.n_slots = LoadOptions::kMaxSlots;
        }},
       {"step",
        [](Request& r) {
          r.shape.n_experts_used = kMax;
          r.shape.layers[0].expert_ffn_dim = 2;
        }},
       {"step", [](Request& r) { r.shape.n_streams = kMax / 1'000'000; }},
       {"step",
        [](Request& r) { r.profile.workspace.kernel_scratch_bytes = kMax; }},
       {"plan",
        [](Request& r) {
          r.options.engine.weight_bytes = kMax - 100;
          r.options.n_ctx = 16;
        }},
       {"plan", [](Request& r) { r.options.margin_bytes = kMax; }},
       {"plan", [](Request& r) { r.profile.runtime_bytes = kMax; }},
       {"plan",
        [](Request& r) { r.profile.workspace.max_candidates = kMax / 4; }},
       {"plan",
        [](Request& r) {
          r.options.engine.weight_bytes = (int64_t{1} << 62) + 1;
          r.options.engine.allocation = AllocationChoice{AllocationRule::kPow2};
        }},
       {"plan",
        [](Request& r) {
          r.options.engine.host_weights.experts = true;
          r.shape.weights[0].kind = WeightKind::kExpert;
          r.shape.weights[0].file_bytes = kMax;
          r.profile.kind = "gpu";
          r.shape.vocab.token_bytes = kMax / 2;
        }},
       {"reserve",
        [&](Request& r) {
          reserve_first(r);
          r.shape.n_experts_used = kMax;
          r.shape.ple_dim = kMax;
        }},
       {"reserve", [&](Request& r) {
          reserve_first(r);
          r.shape.ple_dim = kMax / 64;
        }}});
}

TEST(PlanErrorsTest, WhatOneMoreCostsIsNothingWhereItDoesNotFitInInt64) {
  Request r;
  r.options.n_ctx = 64;
  r.options.n_slots = 3'000;
  r.options.margin_bytes = kMax - 200 * kGiB;
  const auto plan = Layout(r.shape, r.options, r.profile, r.budget_bytes);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GE(plan->bytes_per_slot, 0);
}

TEST(PlanErrorsTest, CountsOfACacheAreNamed) {
  const auto kv = [](int64_t n_ctx, int64_t n_slots, int64_t n_idle) {
    return KvCacheBytes(Gemma270m(),
                        {.n_ctx = n_ctx, .n_slots = n_slots, .n_idle = n_idle})
        .status();
  };
  EXPECT_TRUE(kv(1, 1, 0).ok());
  for (const absl::Status& status : {kv(0, 1, 0), kv(1, 0, 0), kv(1, 1, -1)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

}  // namespace
}  // namespace plimsoll::planner
