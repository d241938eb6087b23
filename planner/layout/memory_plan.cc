#include "planner/layout/memory_plan.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/layout/auto_context.h"
#include "planner/layout/cpu_experts.h"
#include "planner/layout/explain.h"
#include "planner/layout/plan_regions.h"
#include "planner/layout/region_formulas.h"
#include "planner/model/weight_type.h"

namespace plimsoll::planner {
namespace {

absl::Status ValidateShape(const ModelShape& shape) {
  struct Field {
    absl::string_view name;
    int64_t value;
    int64_t max;
  };
  const auto check = [](std::initializer_list<Field> fields) {
    for (const Field& field : fields) {
      if (field.value >= 1 && field.value <= field.max) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("model shape: ", field.name, " is ", field.value,
                       ", not 1 to ", field.max));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check(
      {{"n_layers", shape.n_layers, ModelShape::kMaxLayers},
       {"layers", static_cast<int64_t>(shape.layers.size()), shape.n_layers},
       {"model_dim", shape.model_dim, ModelShape::kMaxDim},
       {"n_heads", shape.n_heads, ModelShape::kMaxDim},
       {"vocab_size", shape.vocab_size, ModelShape::kMaxVocab},
       {"n_ctx_train", shape.n_ctx_train, ModelShape::kMaxContext}}));
  for (const LayerShape& layer : shape.layers) {
    const bool is_latent = layer.mixer == MixerKind::kLatentAttention;
    // A layer may have nothing to attend to, or no FFN.
    const int64_t n_kv_heads = layer.Attends() ? layer.n_kv_heads : 1;
    const int64_t ffn_dim = layer.ffn == FfnKind::kNone
                                ? 1
                                : std::max(layer.ffn_dim, layer.expert_ffn_dim);
    RETURN_IF_ERROR(check(
        {{"n_kv_heads", n_kv_heads, ModelShape::kMaxDim},
         {"head_dim", layer.head_dim,
          is_latent ? ModelShape::kMaxLatentRow : ModelShape::kMaxHeadDim},
         {"ffn_dim", ffn_dim, ModelShape::kMaxDim}}));
  }
  return absl::OkStatus();
}

absl::Status Validate(const PlanRequest& request) {
  const auto& [shape, options, profile, budget_bytes] = request;
  RETURN_IF_ERROR(ValidateShape(shape));
  RETURN_IF_ERROR(ValidateOptions(options));
  RETURN_IF_ERROR(ValidateProfile(profile));
  RETURN_IF_ERROR(CheckCpuExperts(shape, options, profile));
  if (budget_bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("budget_bytes is ", budget_bytes, ", not at least 0"));
}

// The largest context that the model and the options allow, and which of them
// limits it.
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

// Bytes beyond the budgets of the device and of the host.
int64_t Missing(const RegionSizes& sizes, const PlanInputs& inputs) {
  const int64_t host =
      sizes.host_bytes -
      inputs.options().host_budget_bytes.value_or(sizes.host_bytes);
  return std::max<int64_t>(WantedBytes(inputs, sizes) - inputs.budget_bytes(),
                           0) +
         std::max<int64_t>(host, 0);
}

// The one place where n_ctx is decided: it stays 0 if nothing fits. Then the
// numbers are those of the smallest context. `size` is SizeRegions or
// SizeTotals, whose result is returned.
template <typename Size>
absl::StatusOr<RegionSizes> Decide(const PlanInputs& inputs, Size size,
                                   PlanNumbers& numbers) {
  const Cap cap = CapOf(inputs.shape(), inputs.options());
  if (const auto& requested = inputs.options().n_ctx) {
    numbers.n_ctx = std::min(*requested, cap.n_ctx);
    numbers.context_limit =
        *requested <= cap.n_ctx ? ContextLimit::kRequested : cap.limit;
  } else {
    numbers.n_ctx = LargestContext(inputs, cap.n_ctx);
    numbers.context_limit =
        numbers.n_ctx == cap.n_ctx ? cap.limit : ContextLimit::kMemory;
  }
  const ContextGrid grid(cap.n_ctx, inputs.context_step());
  ASSIGN_OR_RETURN(
      RegionSizes sizes,
      size(inputs, numbers.n_ctx > 0 ? numbers.n_ctx : grid.At(0)));
  numbers.arena_bytes = sizes.arena_bytes;
  numbers.total_bytes = sizes.total_bytes;
  numbers.missing_bytes = Missing(sizes, inputs);
  numbers.fits = numbers.missing_bytes == 0;
  numbers.kv = sizes.kv;
  numbers.mtp_kv = sizes.mtp_kv;
  return sizes;
}

// Checks the arguments of Layout and calls `use` with the plan's inputs and its
// weights' layout.
template <typename Use>
auto WithInputs(const PlanRequest& request, Use use)
    -> std::invoke_result_t<Use, const PlanInputs&, WeightLayout&> {
  RETURN_IF_ERROR(Validate(request));
  const PlanOptions& options = request.options;
  const DeviceProfile& profile = request.profile;
  ASSIGN_OR_RETURN(
      const StoredShape stored,
      StoredShape::Create(request.shape, options.engine.weight_type));
  ASSIGN_OR_RETURN(
      WeightLayout weights,
      LayoutWeights(stored.get(), profile, HomesOf(stored.get(), options)));
  ASSIGN_OR_RETURN(
      const PlanInputs inputs,
      PlanInputs::Create({stored.get(), options, profile, request.budget_bytes},
                         weights.bytes));
  if (options.n_cpu_experts == 0) return use(inputs, weights);
  PlanOptions decided = options;
  const int64_t most_tokens = CapOf(stored.get(), options).n_ctx;
  decided.n_cpu_experts = DecideCpuExperts(inputs, most_tokens);
  if (!options.n_cpu_experts) {
    ASSIGN_OR_RETURN(weights, LayoutWeights(stored.get(), profile,
                                            HomesOf(stored.get(), decided)));
  }
  ASSIGN_OR_RETURN(const PlanInputs with_experts, inputs.With(decided));
  return use(with_experts, weights);
}

// Bytes on the device before the allocator rounds.
int64_t ExactBytes(const RegionSizes& sizes) {
  return sizes.total_bytes - sizes.rounding_bytes;
}

// The cost of more of everything on the device, before the allocator rounds; 0
// if it overflows int64.
int64_t Growth(const PlanInputs& more, int64_t n_ctx, const RegionSizes& now) {
  const auto sizes = SizeTotals(more, n_ctx);
  return sizes.ok() ? ExactBytes(*sizes) - ExactBytes(now) : 0;
}

void AddMargins(const PlanInputs& inputs, const RegionSizes& sizes,
                MemoryPlan& plan) {
  const int64_t page = sizes.kv.page_tokens;
  if (const auto next = CheckedAdd(sizes.n_ctx, page)) {
    plan.bytes_per_token = Growth(inputs, *next, sizes) / page;
  }
  PlanOptions options = inputs.options();
  if (++options.n_slots > LoadOptions::kMaxSlots) return;
  const auto with_slot = inputs.With(options);
  if (!with_slot.ok()) return;
  plan.bytes_per_slot = Growth(*with_slot, sizes.n_ctx, sizes);
}

// Says which types of weights a device, or the CPU beside it, cannot run.
std::vector<std::string> TypesNotRun(const PlanInputs& inputs) {
  std::vector<std::string> reasons;
  std::array<std::array<bool, kDTypeRows.size()>, 2> seen = {};
  const int64_t cpu_experts_end =
      HomesOf(inputs.shape(), inputs.options()).cpu_experts_end;
  const auto check = [&](const WeightTensor& tensor, bool is_for_cpu) {
    bool& is_seen = seen[is_for_cpu ? 1 : 0][static_cast<size_t>(tensor.dtype)];
    if (tensor.is_vector || is_seen) return;
    is_seen = true;
    const DeviceProfile& profile =
        is_for_cpu ? HostProfile() : inputs.profile();
    if (FindStorageRule(profile, tensor.dtype) != nullptr) return;
    reasons.push_back(absl::StrCat("tensor \"", tensor.name, "\" is of type ",
                                   DTypeName(tensor.dtype), ", which device \"",
                                   profile.id, "\" cannot run"));
  };
  for (const WeightTensor& tensor : inputs.shape().weights) {
    check(tensor, IsCpuExpert(tensor, cpu_experts_end));
  }
  if (inputs.mtp() == nullptr) return reasons;
  for (const WeightTensor& tensor : inputs.mtp()->shape.weights) {
    check(tensor, /*is_for_cpu=*/false);
  }
  return reasons;
}

std::vector<std::string> WhyNotRunnable(const PlanInputs& inputs) {
  const PlanOptions& options = inputs.options();
  const DeviceProfile& profile = inputs.profile();
  std::vector<std::string> reasons = TypesNotRun(inputs);
  const auto check_kv = [&](DType type) {
    if (HasKvType(profile, type)) return;
    reasons.push_back(absl::StrCat("device \"", profile.id,
                                   "\" has no keys or values of type ",
                                   DTypeName(type)));
  };
  check_kv(options.k_type);
  if (options.v_type != options.k_type) check_kv(options.v_type);
  if (options.mmap_weights && profile.kind != "cpu") {
    reasons.push_back(absl::StrCat("device \"", profile.id,
                                   "\" cannot read weights in a mapped file"));
  }
  return reasons;
}

int64_t PowerOfTwoFrom(int64_t value) {
  int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

// `asked` are the options before n_cpu_experts was decided.
absl::StatusOr<MemoryPlan> Layout(const PlanInputs& inputs,
                                  WeightLayout& weights,
                                  const PlanOptions& asked) {
  MemoryPlan plan = {};
  ASSIGN_OR_RETURN(RegionSizes sizes, Decide(inputs, SizeRegions, plan));
  ExplainRegions(inputs, sizes);
  const int64_t cap = CapOf(inputs.shape(), inputs.options()).n_ctx;
  plan.options = inputs.options();
  plan.options.n_idle_sessions = inputs.n_idle_sessions();
  plan.options.idle_session_bytes.reset();
  plan.budget_bytes = inputs.budget_bytes();
  plan.n_rows = sizes.n_rows;
  plan.n_sampled = sizes.n_sampled;
  plan.host_bytes = sizes.host_bytes;
  plan.mapped_bytes = sizes.mapped_bytes;
  const bool is_solved =
      plan.fits && plan.context_limit == ContextLimit::kMemory;
  if (!plan.fits || is_solved) {
    plan.binding_term = BindingTerm(inputs, sizes, is_solved);
  }
  plan.regions = std::move(sizes.regions);
  plan.workspace = sizes.workspace;
  plan.weights = std::move(weights.placements);
  plan.cpu_weights = std::move(weights.cpu_placements);
  plan.cpu_workspace = sizes.cpu_workspace;
  if (inputs.mtp() != nullptr) plan.mtp_weights = inputs.mtp()->weights;
  plan.not_runnable = WhyNotRunnable(inputs);
  if (const Region* reserve = plan.FindRegion("reserve")) {
    plan.reserve_bytes = reserve->bytes;
  }
  plan.n_ctx_reason = ContextReason(inputs, plan, cap);
  plan.cpu_experts_reason = CpuExpertsReason(inputs, plan, asked);
  AddMargins(inputs, sizes, plan);
  if (!plan.fits || plan.context_limit == ContextLimit::kMemory) {
    plan.suggestions = SuggestChanges(inputs, plan, sizes.n_ctx, cap);
  }
  return plan;
}

}  // namespace

absl::StatusOr<LoadOptions> LoadOptionsOf(const PlanOptions& options) {
  EngineRules own;
  // Only another ring uses the tokens, and that ring is refused.
  own.ring_tokens = options.engine.ring_tokens;
  if (options.engine == own) return LoadOptions(options);
  return absl::InvalidArgumentError(
      "policy, ring, flash_attention, allocation, weight_bytes, weight_type, "
      "host_weights but tables, and a projector plan for other engines; a "
      "load takes none of them");
}

PlanOptions Changed(PlanOptions options, const Change& change) {
  HostWeights& host = options.engine.host_weights;
  host.experts |= change.host_weights.experts;
  host.per_layer_embeddings |= change.host_weights.per_layer_embeddings;
  options.host_tables |= change.host_tables;
  options.n_ubatch = change.n_ubatch.value_or(options.n_ubatch);
  options.k_type = change.kv_type.value_or(options.k_type);
  options.v_type = change.kv_type.value_or(options.v_type);
  options.n_parked = change.n_parked.value_or(options.n_parked);
  options.n_slots = change.n_slots.value_or(options.n_slots);
  if (change.n_cpu_experts) options.n_cpu_experts = change.n_cpu_experts;
  if (change.n_ctx) options.n_ctx = change.n_ctx;
  if (change.max_inference_len) {
    options.max_inference_len = change.max_inference_len;
  }
  if (change.weight_type) options.engine.weight_type = change.weight_type;
  return options;
}

const Region* MemoryPlan::FindRegion(absl::string_view name) const {
  for (const Region& region : regions) {
    if (region.name == name) return &region;
  }
  return nullptr;
}

absl::StatusOr<MemoryPlan> Layout(const ModelShape& shape,
                                  const PlanOptions& options,
                                  const DeviceProfile& profile,
                                  int64_t budget_bytes) {
  return WithInputs({shape, options, profile, budget_bytes},
                    [&](const PlanInputs& inputs, WeightLayout& weights) {
                      return Layout(inputs, weights, options);
                    });
}

absl::StatusOr<PlanNumbers> LayoutNumbers(const PlanInputs& inputs) {
  PlanNumbers numbers = {};
  RETURN_IF_ERROR(Decide(inputs, SizeTotals, numbers).status());
  return numbers;
}

absl::StatusOr<PlanNumbers> LayoutNumbers(const ModelShape& shape,
                                          const PlanOptions& options,
                                          const DeviceProfile& profile,
                                          int64_t budget_bytes) {
  return WithInputs({shape, options, profile, budget_bytes},
                    [](const PlanInputs& inputs, const WeightLayout&) {
                      return LayoutNumbers(inputs);
                    });
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
                  kIndexEntryBytes * PowerOfTwoFrom(2 * vocab.n_tokens) +
                  kFixedBytes;
  if (vocab.n_merges > 0) {
    bytes += kMergeEntryBytes * PowerOfTwoFrom(2 * vocab.n_merges);
  }
  return bytes;
}

}  // namespace plimsoll::planner
