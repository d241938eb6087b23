#include "planner/memory_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/auto_context.h"
#include "planner/explain.h"
#include "planner/plan_regions.h"

namespace plimsoll::planner {
namespace {

absl::Status CheckLimits(absl::string_view name, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model shape: ", name, " is ", value, ", not 1 to ", max));
}

absl::Status ValidateShape(const ModelShape& shape) {
  RETURN_IF_ERROR(
      CheckLimits("n_layers", shape.n_layers, ModelShape::kMaxLayers));
  RETURN_IF_ERROR(CheckLimits(
      "layers", static_cast<int64_t>(shape.layers.size()), shape.n_layers));
  RETURN_IF_ERROR(
      CheckLimits("model_dim", shape.model_dim, ModelShape::kMaxDim));
  RETURN_IF_ERROR(CheckLimits("n_heads", shape.n_heads, ModelShape::kMaxDim));
  RETURN_IF_ERROR(
      CheckLimits("vocab_size", shape.vocab_size, ModelShape::kMaxVocab));
  RETURN_IF_ERROR(
      CheckLimits("n_ctx_train", shape.n_ctx_train, ModelShape::kMaxContext));
  for (const LayerShape& layer : shape.layers) {
    RETURN_IF_ERROR(
        CheckLimits("n_kv_heads", layer.n_kv_heads, ModelShape::kMaxDim));
    RETURN_IF_ERROR(
        CheckLimits("head_dim", layer.head_dim, ModelShape::kMaxHeadDim));
    RETURN_IF_ERROR(CheckLimits("ffn_dim", layer.ffn_dim, ModelShape::kMaxDim));
  }
  return absl::OkStatus();
}

// The largest context that the model and the options allow, and which of them
// says so.
struct Cap {
  int64_t n_ctx;
  ContextLimit limit;
};

Cap CapOf(const ModelShape& shape, const LoadOptions& options) {
  if (options.max_inference_len &&
      *options.max_inference_len < shape.n_ctx_train) {
    return {*options.max_inference_len, ContextLimit::kMaxInferenceLen};
  }
  return {shape.n_ctx_train, ContextLimit::kTrainedContext};
}

// The one place where n_ctx is decided. 0 if nothing fits.
absl::StatusOr<int64_t> ResolveContext(const PlanInputs& inputs, const Cap& cap,
                                       int64_t budget_bytes,
                                       ContextLimit& limit) {
  if (inputs.options.n_ctx) {
    const int64_t requested = *inputs.options.n_ctx;
    limit = requested <= cap.n_ctx ? ContextLimit::kRequested : cap.limit;
    return std::min(requested, cap.n_ctx);
  }
  ASSIGN_OR_RETURN(const int64_t n_ctx,
                   LargestContext(inputs, cap.n_ctx, budget_bytes));
  limit = n_ctx == cap.n_ctx ? cap.limit : ContextLimit::kMemory;
  return n_ctx;
}

// A plan before it is put into words.
struct SizedPlan {
  Cap cap;
  ContextLimit limit;
  int64_t n_ctx;  // 0 if nothing fits; then the sizes are the smallest's
  RegionSizes sizes;
};

absl::StatusOr<SizedPlan> SizePlan(const PlanInputs& inputs,
                                   int64_t budget_bytes) {
  SizedPlan plan = {};
  plan.cap = CapOf(inputs.shape, inputs.options);
  ASSIGN_OR_RETURN(plan.n_ctx,
                   ResolveContext(inputs, plan.cap, budget_bytes, plan.limit));
  ASSIGN_OR_RETURN(
      plan.sizes,
      SizeRegions(inputs,
                  plan.n_ctx > 0 ? plan.n_ctx : ContextAt(0, plan.cap.n_ctx)));
  return plan;
}

int64_t NextPowerOfTwo(int64_t value) {
  int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace

const char* ContextLimitName(ContextLimit limit) {
  switch (limit) {
    case ContextLimit::kRequested:
      return "REQUESTED";
    case ContextLimit::kMaxInferenceLen:
      return "MAX_INFERENCE_LEN";
    case ContextLimit::kTrainedContext:
      return "TRAINED_CONTEXT";
    case ContextLimit::kMemory:
      return "MEMORY";
  }
  return "UNKNOWN";
}

const Region* MemoryPlan::FindRegion(absl::string_view name) const {
  for (const Region& region : regions) {
    if (region.name == name) return &region;
  }
  return nullptr;
}

absl::StatusOr<MemoryPlan> Layout(const ModelShape& shape,
                                  const LoadOptions& options,
                                  const DeviceProfile& profile,
                                  int64_t budget_bytes) {
  RETURN_IF_ERROR(ValidateShape(shape));
  RETURN_IF_ERROR(ValidateOptions(options));
  RETURN_IF_ERROR(ValidateProfile(profile));
  if (budget_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget_bytes is ", budget_bytes, ", not at least 0"));
  }
  ASSIGN_OR_RETURN(WeightLayout weights, LayoutWeights(shape, profile));
  const PlanInputs inputs = {shape, options, profile, weights.bytes};
  ASSIGN_OR_RETURN(SizedPlan sized, SizePlan(inputs, budget_bytes));
  RegionSizes& sizes = sized.sizes;
  ExplainRegions(inputs, sizes);

  MemoryPlan plan = {};
  plan.options = options;
  plan.budget_bytes = budget_bytes;
  plan.n_ctx = sized.n_ctx;
  plan.context_limit = sized.limit;
  plan.n_rows = sizes.n_rows;
  plan.n_sampled = sizes.n_sampled;
  plan.arena_bytes = sizes.arena_bytes;
  plan.total_bytes = sizes.total_bytes;
  plan.fits = plan.total_bytes <= budget_bytes;
  plan.missing_bytes = plan.fits ? 0 : plan.total_bytes - budget_bytes;
  plan.regions = std::move(sizes.regions);
  plan.kv = sizes.kv;
  plan.workspace = sizes.workspace;
  plan.weights = std::move(weights.placements);
  ASSIGN_OR_RETURN(plan.n_ctx_reason,
                   ContextReason(inputs, plan, sized.cap.n_ctx));
  if (!plan.fits) {
    ASSIGN_OR_RETURN(
        plan.suggestions,
        SuggestChanges(inputs, sizes.n_ctx, plan.total_bytes, budget_bytes));
  }
  return plan;
}

absl::StatusOr<PlanNumbers> LayoutNumbers(const PlanInputs& inputs,
                                          int64_t budget_bytes) {
  ASSIGN_OR_RETURN(const SizedPlan plan, SizePlan(inputs, budget_bytes));
  PlanNumbers numbers;
  numbers.n_ctx = plan.n_ctx;
  numbers.arena_bytes = plan.sizes.arena_bytes;
  numbers.total_bytes = plan.sizes.total_bytes;
  numbers.kv = plan.sizes.kv;
  return numbers;
}

int64_t VocabBytes(const VocabShape& vocab) {
  if (vocab.model == "no_vocab" || vocab.n_tokens <= 0) return 0;
  // A token has its text, a 4-byte end, a 4-byte score and a byte of type; the
  // index from text to id is at most half full.
  constexpr int64_t kTokenBytes = 4 + 4 + 1;
  constexpr int64_t kIndexEntryBytes = 8;
  constexpr int64_t kMergeEntryBytes = 16;
  constexpr int64_t kFixedBytes = 64 << 10;
  int64_t bytes = vocab.token_bytes + vocab.n_tokens * kTokenBytes +
                  kIndexEntryBytes * NextPowerOfTwo(2 * vocab.n_tokens) +
                  kFixedBytes;
  if (vocab.n_merges > 0) {
    bytes += kMergeEntryBytes * NextPowerOfTwo(2 * vocab.n_merges);
  }
  return bytes;
}

}  // namespace plimsoll::planner
