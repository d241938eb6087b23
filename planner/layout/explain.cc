#include "planner/layout/explain.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/layout/auto_context.h"
#include "planner/layout/change.h"
#include "planner/layout/cpu_experts.h"
#include "planner/layout/kv_cache_bytes.h"

namespace plimsoll::planner {
namespace {

// A file that saves less than a fiftieth of the weights is no advice.
constexpr double kWorthwhile = 0.98;
// Element types that files of a model come in, the best first.
constexpr std::array<DType, 6> kFileTypes = {DType::kQ8_0, DType::kQ6_K,
                                             DType::kQ5_K, DType::kQ4_K,
                                             DType::kQ3_K, DType::kQ2_K};

constexpr Change kAllExperts = {.n_cpu_experts = LoadOptions::kMaxCpuExperts};

class Adviser {
 public:
  // Changes keep `n_ctx` tokens of context, or give at most `cap`.
  Adviser(const PlanInputs& inputs, const MemoryPlan& plan, int64_t n_ctx,
          int64_t cap)
      : inputs_(inputs), plan_(plan), n_ctx_(n_ctx), cap_(cap) {}

  // Adds the change to the list if its plan fits, and returns whether it does.
  // Options that no plan can be made with do not fit.
  bool Try(const Change& change) {
    const PlanOptions options = Changed(inputs_.options(), change);
    const auto inputs = inputs_.With(options);
    if (!inputs.ok() || !Fits(*inputs, n_ctx_)) return false;
    Add(*inputs, change, n_ctx_, n_ctx_);
    return true;
  }

  // Adds the change if it gives a longer context than the plan has, and returns
  // whether it does.
  bool TryLonger(const Change& change) {
    const PlanOptions options = Changed(inputs_.options(), change);
    const auto inputs = inputs_.With(options);
    const int64_t n_ctx = inputs.ok() ? LargestContext(*inputs, cap_) : 0;
    if (n_ctx <= plan_.n_ctx) return false;
    Add(*inputs, change, plan_.n_ctx, n_ctx);
    return true;
  }

  // The best file of the model with which the plan fits or, where it does, has
  // a longer context: in a type that the device runs, unless it cannot run the
  // plan anyway.
  void TryWeights(Change change) {
    if (inputs_.options().engine.weight_bytes) return;
    if (elements_ == 0) elements_ = MatrixElements();
    for (const DType type : kFileTypes) {
      const bool runs = FindStorageRule(inputs_.profile(), type) != nullptr;
      if (!runs && plan_.not_runnable.empty()) continue;
      // Planning again takes microseconds; most types are ruled out by this.
      const DTypeInfo& info = InfoOf(type);
      const double least = elements_ * static_cast<double>(info.block_bytes) /
                           static_cast<double>(info.block_elems);
      const auto now = static_cast<double>(inputs_.weight_bytes());
      if (least > kWorthwhile * now) continue;
      change.weight_type = type;
      if (plan_.fits ? TryLonger(change) : Try(change)) return;
    }
  }

  // The largest context up to `n_ctx` that fits with the change.
  void TryContext(Change change) {
    const PlanOptions options = Changed(inputs_.options(), change);
    const auto inputs = inputs_.With(options);
    const int64_t n_ctx = inputs.ok() ? LargestContext(*inputs, n_ctx_) : 0;
    if (n_ctx == 0) return;
    (options.n_ctx ? change.n_ctx : change.max_inference_len) = n_ctx;
    Add(*inputs, change, n_ctx, n_ctx);
  }

  void TryUbatch() {
    TrySmallerUbatch(inputs_.options().n_ubatch,
                     [&](const Change& change) { return Try(change); });
  }

  void TrySlots() {
    const auto change =
        MostSlots(inputs_.options().n_slots,
                  [&](const Change& fewer) { return FitsWith(fewer); });
    if (change) Try(*change);
  }

  // The experts of as few more layers as are enough go to host memory.
  void TryExperts() {
    const int64_t n_more = MovableExperts();
    if (n_more == 0 || !FitsWith(kAllExperts)) return;
    const int64_t n_now = NumCpuExperts();
    int64_t failing = 0;
    int64_t fitting = n_more;
    while (fitting - failing > 1) {
      const int64_t middle = failing + (fitting - failing) / 2;
      (FitsWith({.n_cpu_experts = n_now + middle}) ? fitting : failing) =
          middle;
    }
    Try({.n_cpu_experts = n_now + fitting});
  }

  // All experts go to host memory, if that makes the context longer.
  void TryLongerWithExperts() {
    const int64_t n_more = MovableExperts();
    if (n_more > 0) TryLonger({.n_cpu_experts = NumCpuExperts() + n_more});
  }

  std::vector<Suggestion> Take() { return std::move(suggestions_); }
  bool empty() const { return suggestions_.empty(); }

 private:
  // How many more layers' experts the CPU could compute.
  int64_t MovableExperts() const {
    const bool may_move =
        CheckCpuExperts(inputs_.shape(),
                        Changed(inputs_.options(), kAllExperts),
                        inputs_.profile())
            .ok();
    return may_move ? NumExpertLayers(inputs_.shape()) - NumCpuExperts() : 0;
  }
  int64_t NumCpuExperts() const {
    return inputs_.options().n_cpu_experts.value_or(0);
  }

  bool FitsWith(const Change& change) const {
    const PlanOptions options = Changed(inputs_.options(), change);
    const auto inputs = inputs_.With(options);
    return inputs.ok() && Fits(*inputs, n_ctx_);
  }

  // The number of elements in matrices that stay on the device.
  double MatrixElements() const {
    const WeightHomes homes = HomesOf(inputs_.shape(), inputs_.options());
    double elements = 0;
    for (const WeightTensor& tensor : inputs_.shape().weights) {
      if (tensor.is_vector || StaysOnHost(tensor.kind, homes.in_memory) ||
          IsCpuExpert(tensor, homes.cpu_experts_end)) {
        continue;
      }
      elements += static_cast<double>(tensor.cols) *
                  static_cast<double>(tensor.rows) *
                  static_cast<double>(tensor.n_matrices);
    }
    return elements;
  }

  // What a change saves is told at the context `saves_at`.
  void Add(const PlanInputs& inputs, const Change& change, int64_t saves_at,
           int64_t n_ctx) {
    const int64_t bytes = TotalBytes(inputs, saves_at).value_or(0);
    suggestions_.push_back({change, plan_.total_bytes - bytes, n_ctx});
  }

  const PlanInputs& inputs_;
  const MemoryPlan& plan_;
  int64_t n_ctx_;
  int64_t cap_;
  double elements_ = 0;  // elements of matrices on the device, once counted
  std::vector<Suggestion> suggestions_;
};

// Element types of keys and values below those of the options, the largest
// first: those that the device runs; all, where it cannot run the plan anyway.
// Heads are whole blocks of each, and of types of one size there is the first.
std::vector<DType> SmallerKvTypes(const PlanInputs& inputs,
                                  const MemoryPlan& plan) {
  constexpr int64_t kElements = 256;  // whole blocks of every type
  const PlanOptions& options = inputs.options();
  const auto bytes_of = [](DType type) {
    return RowBytes(type, kElements).value_or(0);
  };
  const int64_t now =
      std::max(bytes_of(options.k_type), bytes_of(options.v_type));
  std::vector<DType> types = {DType::kF16, DType::kQ8_0, DType::kQ4_0};
  if (plan.not_runnable.empty() &&
      inputs.context_step() == ContextStep::kPage) {
    types = inputs.profile().kv_types;
  }
  std::erase_if(types, [&](DType type) {
    return bytes_of(type) >= now ||
           !KvModel::Create(inputs.shape(), type, type, {}).ok();
  });
  std::stable_sort(types.begin(), types.end(),
                   [&](DType a, DType b) { return bytes_of(a) > bytes_of(b); });
  types.erase(
      std::unique(types.begin(), types.end(),
                  [&](DType a, DType b) { return bytes_of(a) == bytes_of(b); }),
      types.end());
  return types;
}

// Moves what the host could keep and does not: this engine keeps tables there,
// others experts and tables of per-layer embeddings.
Change MoveToHost(const PlanInputs& inputs) {
  Change move;
  if (inputs.profile().kind == "cpu") return move;
  const PlanOptions& options = inputs.options();
  for (const WeightTensor& tensor : inputs.shape().weights) {
    if (StaysOnHost(tensor.kind, options.engine.host_weights)) continue;
    if (options.engine.policy == ReservePolicy::kExact) {
      move.host_tables |=
          IsTable(inputs.shape(), tensor) && !options.host_tables;
    } else {
      move.host_weights.experts |= tensor.kind == WeightKind::kExpert;
      move.host_weights.per_layer_embeddings |=
          tensor.kind == WeightKind::kPerLayerEmbedding;
    }
  }
  return move;
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

std::string ContextReason(const PlanInputs& inputs, const MemoryPlan& plan,
                          int64_t cap) {
  const LoadOptions& options = plan.options;
  const std::string budget = WithThousands(plan.budget_bytes);
  const ContextGrid grid(cap, inputs.context_step());
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
        "not even ", grid.At(0), " tokens fit: they need ",
        WithThousands(
            WantedBytes(inputs, grid.At(0)).value_or(plan.total_bytes)),
        " bytes, the budget is ", budget);
  }
  const auto bytes = WantedBytes(inputs, grid.Next(plan.n_ctx));
  return absl::StrCat(
      WithThousands(plan.n_ctx),
      " tokens are the largest context that fits: one ",
      inputs.context_step() == ContextStep::kToken ? "token" : "page",
      " more needs ", bytes ? WithThousands(*bytes) : "more than 2^63",
      " bytes, the budget is ", budget);
}

std::string BindingTerm(const PlanInputs& inputs, const RegionSizes& sizes,
                        bool only_kv) {
  const auto is_kv = [](const Region& region) {
    return region.name == "kv_full" || region.name == "kv_window";
  };
  const Region* largest = nullptr;
  for (const Region& region : sizes.regions) {
    const bool is_elsewhere =
        region.on_host || (region.is_mapped && !LeavesRoomForPages(inputs));
    if (is_elsewhere || (only_kv && !is_kv(region))) continue;
    if (largest == nullptr || region.bytes > largest->bytes) largest = &region;
  }
  if (largest == nullptr) return "";
  if (!is_kv(*largest)) return std::string(largest->name);
  const bool is_ring = largest->name == "kv_window";
  int64_t n_layers = 0;
  for (size_t il = 0; il < inputs.shape().layers.size(); ++il) {
    const LayerShape& layer = inputs.shape().layers[il];
    if (layer.kv_source != static_cast<int64_t>(il) || !layer.Attends()) {
      continue;
    }
    n_layers += HasRing(layer.window, sizes.n_ctx) == is_ring ? 1 : 0;
  }
  return absl::StrCat(largest->name, ": keys and values of ", n_layers,
                      is_ring ? " window layers" : " full layers");
}

std::vector<Suggestion> SuggestChanges(const PlanInputs& inputs,
                                       const MemoryPlan& plan, int64_t n_ctx,
                                       int64_t cap) {
  const PlanOptions& options = inputs.options();
  Adviser adviser(inputs, plan, n_ctx, cap);
  const std::vector<DType> types = SmallerKvTypes(inputs, plan);
  const Change on_host = MoveToHost(inputs);
  const bool has_parked = options.n_parked > 0;
  if (plan.fits) {
    if (has_parked) adviser.TryLonger({.n_parked = 0});
    for (const DType type : types) adviser.TryLonger({.kv_type = type});
    if (!on_host.empty()) adviser.TryLonger(on_host);
    adviser.TryLongerWithExperts();
    if (options.n_slots > 1) adviser.TryLonger({.n_slots = 1});
    adviser.TryWeights({});
    return adviser.Take();
  }
  if (has_parked) adviser.Try({.n_parked = 0});
  adviser.TryUbatch();
  for (const DType type : types) adviser.Try({.kv_type = type});
  if (!on_host.empty()) adviser.Try(on_host);
  adviser.TryExperts();
  adviser.TrySlots();
  adviser.TryContext({});
  // Every reduction at once, for when no single one is enough.
  Change all = EveryReduction(
      options, types.empty() ? std::nullopt : std::optional(types.back()));
  all.host_weights = on_host.host_weights;
  all.host_tables = on_host.host_tables;
  if (adviser.empty() && !all.empty() && !adviser.Try(all)) {
    adviser.TryContext(all);
  }
  adviser.TryWeights({});
  if (adviser.empty() && !all.empty()) adviser.TryWeights(all);
  return adviser.Take();
}

}  // namespace plimsoll::planner
