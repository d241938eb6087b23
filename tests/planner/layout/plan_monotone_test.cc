// More of any one thing never costs less memory, and more memory never gives
// less context: properties that shrink to a small example when they fail.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/layout/memory_plan.h"
#include "tests/planner/shapes.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();
constexpr int64_t kTrained = 1 << 20;

// By the bytes of a row.
constexpr std::array<DType, 4> kTypes = {DType::kQ4_0, DType::kQ8_0,
                                         DType::kF16, DType::kF32};

// Everything that a plan is asked with, as plain numbers.
struct Question {
  ShapeNumbers shape;
  int64_t group;  // query heads of a KV head
  AllocationRule rule;
  int64_t n_ctx, n_slots, n_ubatch, n_idle, n_draft, k_type, v_type, margin;
};

absl::StatusOr<MemoryPlan> Ask(Question q, bool is_solved, int64_t budget) {
  q.shape.n_heads = q.shape.n_kv_heads * q.group;
  PlanOptions options;
  if (is_solved) {
    options.max_inference_len = q.n_ctx;
  } else {
    options.n_ctx = q.n_ctx;
  }
  options.n_slots = q.n_slots;
  options.n_ubatch = q.n_ubatch;
  options.n_idle_sessions = q.n_idle;
  options.n_draft = q.n_draft;
  options.k_type = kTypes.at(static_cast<size_t>(q.k_type));
  options.v_type = kTypes.at(static_cast<size_t>(q.v_type));
  options.margin_bytes = q.margin;
  DeviceProfile profile = CommittedCpuProfile();
  profile.allocation = q.rule;
  return Layout(MakeShape(q.shape), options, profile, budget);
}

int64_t BytesOf(const Question& question) {
  const auto plan = Ask(question, false, kNoBudget);
  if (!plan.ok()) RC_FAIL(plan.status().ToString());
  return plan->total_bytes;
}

int64_t Draw(const std::string& name, int64_t least, int64_t most) {
  return *rc::gen::inRange<int64_t>(least, most + 1).as(name);
}

Question DrawQuestion() {
  Question q = {};
  q.shape.n_layers = Draw("n_layers", 1, 40);
  q.shape.model_dim = 32 * Draw("model_dim / 32", 1, 64);
  q.shape.n_kv_heads = Draw("n_kv_heads", 1, 16);
  q.group = Draw("query heads of a KV head", 1, 8);
  q.shape.head_dim = 32 * Draw("head_dim / 32", 1, 8);
  q.shape.ffn_dim = 32 * Draw("ffn_dim / 32", 1, 256);
  q.shape.vocab = Draw("vocab", 1, 300'000);
  q.shape.n_ctx_train = kTrained;
  q.shape.window = Draw("window", 0, 4'096);
  q.shape.embedding = DType::kQ8_0;
  q.shape.trunk = DType::kQ4_1;
  constexpr std::array<AllocationRule, 3> kRules = {
      AllocationRule::kExact, AllocationRule::kGranularity,
      AllocationRule::kPow2};
  q.rule = kRules.at(static_cast<size_t>(Draw("allocation rule", 0, 2)));
  q.n_ctx = Draw("n_ctx", 1, kTrained / 2);
  q.n_slots = Draw("n_slots", 1, 64);
  q.n_ubatch = Draw("n_ubatch", 1, 1'024);
  q.n_idle = Draw("n_idle_sessions", 0, 4);
  q.n_draft = Draw("n_draft", 0, 14);
  q.k_type = Draw("k_type", 0, 3);
  q.v_type = Draw("v_type", 0, 3);
  q.margin = Draw("margin_bytes", 0, 1 << 20);
  return q;
}

// An argument of a plan, and what a step of it is.
struct Argument {
  std::string name;
  int64_t& (*of)(Question&);
  int64_t unit;
  int64_t most;
};

std::vector<Argument> Arguments() {
  const int64_t far = kNoBudget;
  return {
      {"n_ctx", [](Question& q) -> int64_t& { return q.n_ctx; }, 1, kTrained},
      {"n_slots", [](Question& q) -> int64_t& { return q.n_slots; }, 1, far},
      {"n_ubatch", [](Question& q) -> int64_t& { return q.n_ubatch; }, 1, far},
      {"idle", [](Question& q) -> int64_t& { return q.n_idle; }, 1, far},
      {"draft", [](Question& q) -> int64_t& { return q.n_draft; }, 1,
       LoadOptions::kMaxDraftTokens},
      {"k_type", [](Question& q) -> int64_t& { return q.k_type; }, 1, 3},
      {"v_type", [](Question& q) -> int64_t& { return q.v_type; }, 1, 3},
      {"margin", [](Question& q) -> int64_t& { return q.margin; }, 1, far},
      {"layers", [](Question& q) -> int64_t& { return q.shape.n_layers; }, 1,
       far},
      {"model_dim", [](Question& q) -> int64_t& { return q.shape.model_dim; },
       32, far},
      {"kv_heads", [](Question& q) -> int64_t& { return q.shape.n_kv_heads; },
       1, far},
      {"group", [](Question& q) -> int64_t& { return q.group; }, 1, far},
      {"head_dim", [](Question& q) -> int64_t& { return q.shape.head_dim; }, 32,
       ModelShape::kMaxHeadDim},
      {"ffn_dim", [](Question& q) -> int64_t& { return q.shape.ffn_dim; }, 32,
       far},
      {"vocab", [](Question& q) -> int64_t& { return q.shape.vocab; }, 1, far},
  };
}

RC_GTEST_PROP(PlanMonotoneTest, MoreOfAnythingNeverCostsLess, ()) {
  const Question question = DrawQuestion();
  static const std::vector<Argument>* const kArguments =
      new std::vector<Argument>(Arguments());
  const int64_t index =
      Draw("argument", 0, static_cast<int64_t>(kArguments->size()) - 1);
  const Argument& argument = kArguments->at(static_cast<size_t>(index));
  Question more = question;
  int64_t& value = argument.of(more);
  value = std::min(value + Draw("steps", 1, 64) * argument.unit, argument.most);
  const int64_t before = BytesOf(question);
  const int64_t after = BytesOf(more);
  if (after < before) {
    RC_FAIL(absl::StrCat("more of ", argument.name, " costs ", after,
                         " bytes instead of ", before));
  }
}

RC_GTEST_PROP(PlanMonotoneTest, MoreMemoryNeverGivesLessContext, ()) {
  const Question question = DrawQuestion();
  const int64_t most = BytesOf(question);
  const int64_t budget = *rc::gen::inRange<int64_t>(1, most + 1).as("budget");
  const int64_t more = budget + Draw("more bytes", 1, 1 << 26);
  const auto less = Ask(question, true, budget);
  const auto greater = Ask(question, true, more);
  if (!less.ok()) RC_FAIL(less.status().ToString());
  if (!greater.ok()) RC_FAIL(greater.status().ToString());
  RC_ASSERT(less->n_ctx <= greater->n_ctx);
  RC_ASSERT(!less->fits || greater->fits);
}

}  // namespace
}  // namespace plimsoll::planner
