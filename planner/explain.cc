#include "planner/explain.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/auto_context.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kSmallestUbatch = 16;

// What is changed together, in the command line's words.
struct Change {
  LoadOptions options;
  int64_t n_ctx;
  std::string text;
};

void Append(std::string& text, absl::string_view flag) {
  absl::StrAppend(&text, text.empty() ? "" : " ", flag);
}

class Adviser {
 public:
  Adviser(const PlanInputs& inputs, int64_t total_bytes, int64_t budget_bytes)
      : inputs_(inputs),
        total_bytes_(total_bytes),
        budget_bytes_(budget_bytes) {}

  // Adds the change to the list if its plan fits, and returns whether it does.
  absl::StatusOr<bool> Try(const Change& change) {
    const PlanInputs inputs = {inputs_.shape, change.options, inputs_.profile,
                               inputs_.weight_bytes};
    ASSIGN_OR_RETURN(const auto bytes, TotalBytes(inputs, change.n_ctx));
    if (!bytes || *bytes > budget_bytes_) return false;
    suggestions_.push_back({change.text, total_bytes_ - *bytes});
    return true;
  }

  // The largest context below `change.n_ctx` that fits with its options.
  absl::StatusOr<bool> TryContext(Change change) {
    const PlanInputs inputs = {inputs_.shape, change.options, inputs_.profile,
                               inputs_.weight_bytes};
    ASSIGN_OR_RETURN(change.n_ctx,
                     LargestContext(inputs, change.n_ctx, budget_bytes_));
    if (change.n_ctx == 0) return false;
    const absl::string_view flag =
        change.options.n_ctx ? "--n-ctx" : "--max-inference-len";
    Append(change.text, absl::StrCat(flag, " ", change.n_ctx));
    return Try(change);
  }

  absl::Status TryUbatch(Change change) {
    while (change.options.n_ubatch > kSmallestUbatch) {
      change.options.n_ubatch =
          std::max(kSmallestUbatch, change.options.n_ubatch / 2);
      change.text = absl::StrCat("--n-ubatch ", change.options.n_ubatch);
      ASSIGN_OR_RETURN(const bool fits, Try(change));
      if (fits) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status TrySlots(Change change) {
    int64_t fitting = 0;
    int64_t failing = change.options.n_slots;
    while (failing - fitting > 1) {
      const int64_t middle = fitting + (failing - fitting) / 2;
      change.options.n_slots = middle;
      const PlanInputs inputs = {inputs_.shape, change.options, inputs_.profile,
                                 inputs_.weight_bytes};
      ASSIGN_OR_RETURN(const auto bytes, TotalBytes(inputs, change.n_ctx));
      (bytes && *bytes <= budget_bytes_ ? fitting : failing) = middle;
    }
    if (fitting == 0) return absl::OkStatus();
    change.options.n_slots = fitting;
    change.text = absl::StrCat("--slots ", fitting);
    return Try(change).status();
  }

  std::vector<Suggestion> Take() { return std::move(suggestions_); }
  bool empty() const { return suggestions_.empty(); }

 private:
  const PlanInputs& inputs_;
  int64_t total_bytes_;
  int64_t budget_bytes_;
  std::vector<Suggestion> suggestions_;
};

// Halves float32 keys and values; nothing else can be run.
bool UseHalfKv(Change& change) {
  if (change.options.k_type != DType::kF32 &&
      change.options.v_type != DType::kF32) {
    return false;
  }
  change.options.k_type = DType::kF16;
  change.options.v_type = DType::kF16;
  Append(change.text, "--kv-type f16");
  return true;
}

// Every reduction at once, for when no single one is enough.
Change SmallestChange(const Change& base) {
  Change change = base;
  if (change.options.n_ubatch > kSmallestUbatch) {
    change.options.n_ubatch = kSmallestUbatch;
    Append(change.text, absl::StrCat("--n-ubatch ", kSmallestUbatch));
  }
  UseHalfKv(change);
  if (change.options.n_slots > 1) {
    change.options.n_slots = 1;
    Append(change.text, "--slots 1");
  }
  return change;
}

}  // namespace

std::string WithThousands(int64_t value) {
  const std::string digits = absl::StrCat(value);
  const size_t sign = value < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

absl::StatusOr<std::string> ContextReason(const PlanInputs& inputs,
                                          const MemoryPlan& plan, int64_t cap) {
  const LoadOptions& options = plan.options;
  const std::string budget = WithThousands(plan.budget_bytes);
  const std::string cut =
      options.n_ctx && *options.n_ctx > plan.n_ctx
          ? absl::StrCat("; the requested ", WithThousands(*options.n_ctx),
                         " was cut to it")
          : "";
  switch (plan.context_limit) {
    case ContextLimit::kRequested:
      return absl::StrCat(WithThousands(plan.n_ctx), " tokens were requested");
    case ContextLimit::kMaxInferenceLen:
      return absl::StrCat("max_inference_len is ", WithThousands(cap),
                          " tokens", cut);
    case ContextLimit::kTrainedContext:
      return absl::StrCat("the model was trained for ", WithThousands(cap),
                          " tokens", cut);
    case ContextLimit::kMemory:
      break;
  }
  if (plan.n_ctx == 0) {
    return absl::StrCat(
        "not even ", ContextAt(0, cap), " tokens fit: they need ",
        WithThousands(plan.total_bytes), " bytes, the budget is ", budget);
  }
  ASSIGN_OR_RETURN(const auto bytes,
                   TotalBytes(inputs, NextContext(plan.n_ctx, cap)));
  return absl::StrCat(
      WithThousands(plan.n_ctx),
      " tokens are the largest context that fits: one page more needs ",
      bytes ? WithThousands(*bytes) : "more than 2^63",
      " bytes, the budget is ", budget);
}

absl::StatusOr<std::vector<Suggestion>> SuggestChanges(const PlanInputs& inputs,
                                                       int64_t n_ctx,
                                                       int64_t total_bytes,
                                                       int64_t budget_bytes) {
  Adviser adviser(inputs, total_bytes, budget_bytes);
  const Change base = {inputs.options, n_ctx, ""};
  RETURN_IF_ERROR(adviser.TryUbatch(base));
  Change half = base;
  if (UseHalfKv(half)) RETURN_IF_ERROR(adviser.Try(half).status());
  RETURN_IF_ERROR(adviser.TrySlots(base));
  RETURN_IF_ERROR(adviser.TryContext(base).status());
  if (adviser.empty()) {
    const Change all = SmallestChange(base);
    if (!all.text.empty()) {
      ASSIGN_OR_RETURN(const bool fits, adviser.Try(all));
      if (!fits) RETURN_IF_ERROR(adviser.TryContext(all).status());
    }
  }
  return adviser.Take();
}

}  // namespace plimsoll::planner
