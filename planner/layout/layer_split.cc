#include "planner/layout/layer_split.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/auto_context.h"
#include "planner/layout/change.h"
#include "planner/layout/explain.h"
#include "planner/layout/idle_sessions.h"
#include "planner/layout/kv_cache_bytes.h"

namespace plimsoll::planner {
namespace {

// Which parts a tensor goes to: those with its layer or, without one, the
// first, the last or all of them.
struct Owner {
  std::optional<int64_t> layer;
  bool is_in_all = false;
  bool is_in_first = false;
  bool is_in_last = false;

  bool HasPart(int64_t first, int64_t end, int64_t n_layers) const {
    if (layer) return *layer >= first && *layer < end;
    return is_in_all || (is_in_first && first == 0) ||
           (is_in_last && end == n_layers);
  }
};

Owner OwnerOf(const WeightTensor& tensor, bool tied_output) {
  const bool is_output = absl::StartsWith(tensor.name, "output") ||
                         absl::StartsWith(tensor.name, "altup_unembd");
  const bool is_shared = tied_output && tensor.kind == WeightKind::kEmbedding;
  return {.layer = LayerOf(tensor.name),
          .is_in_all = absl::StartsWith(tensor.name, "rope_"),
          .is_in_first = !is_output,
          .is_in_last = is_output || is_shared};
}

// Cuts many parts out of one model: it looks at each tensor's name once, and
// copies only what a part has.
class Slicer {
 public:
  // `shape` must outlive it.
  explicit Slicer(const ModelShape& shape) : shape_(shape), empty_(shape) {
    owners_.reserve(shape.weights.size());
    for (const WeightTensor& tensor : shape.weights) {
      owners_.push_back(OwnerOf(tensor, shape.tied_output));
    }
    empty_.layers = {};
    empty_.weights = {};
  }

  const ModelShape& shape() const { return shape_; }

  // See SliceLayers.
  absl::StatusOr<ModelShape> Slice(int64_t first, int64_t n) const {
    if (first < 0 || n < 1 || n > shape_.n_layers - first) {
      return absl::InvalidArgumentError(
          absl::StrCat("layers ", first, " to ", first + n - 1,
                       " are not among the model's ", shape_.n_layers));
    }
    ModelShape slice = empty_;
    slice.n_layers = n;
    slice.layers.assign(shape_.layers.begin() + first,
                        shape_.layers.begin() + first + n);
    for (LayerShape& layer : slice.layers) {
      layer.kv_source -= first;
      if (layer.kv_source >= 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "a layer from ", first, " on reads keys and values of layer ",
          layer.kv_source + first));
    }
    for (size_t t = 0; t < owners_.size(); ++t) {
      if (owners_[t].HasPart(first, first + n, shape_.n_layers)) {
        slice.weights.push_back(shape_.weights[t]);
      }
    }
    slice.has_first_layer = first == 0;
    slice.has_last_layer = first + n == shape_.n_layers;
    if (!slice.has_first_layer) slice.vocab = {};
    // An MTP head needs the embedding, and the vocabulary projection as well.
    if (n < shape_.n_layers) slice.mtp.reset();
    return slice;
  }

 private:
  const ModelShape& shape_;
  ModelShape empty_;           // the shape without layers and weights
  std::vector<Owner> owners_;  // by index in ModelShape::weights
};

// The data that all splits of one call share.
struct SplitProblem {
  const Slicer& slicer;
  const std::vector<SplitDevice>& devices;
  StopCheck stop;
};

// The places where the model may be cut: no layer behind a cut reads keys or
// values of a layer before it. Both ends are among them.
std::vector<int64_t> Cuts(const ModelShape& shape) {
  std::vector<int64_t> cuts = {shape.n_layers};
  int64_t least_source = shape.n_layers;
  for (int64_t il = shape.n_layers - 1; il >= 0; --il) {
    least_source =
        std::min(least_source, shape.layers[static_cast<size_t>(il)].kv_source);
    if (least_source >= il) cuts.push_back(il);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

class Splitter {
 public:
  // A part has only some of an idle session's rings and states, so their number
  // is decided for the whole model.
  static absl::StatusOr<Splitter> Create(const SplitProblem& problem,
                                         PlanOptions options) {
    ASSIGN_OR_RETURN(options.n_idle_sessions,
                     DecideIdleSessions(problem.slicer.shape(), options));
    options.idle_session_bytes.reset();
    return Splitter(problem, options);
  }

  // Fills the devices in order for `n_ctx` tokens, without the parts' plans.
  absl::StatusOr<SplitPlan> At(int64_t n_ctx) const {
    SplitPlan split = {};
    split.n_ctx = n_ctx;
    ASSIGN_OR_RETURN(const size_t cut,
                     Fill(devices_.size(), n_ctx, split.parts));
    split.n_layers_left = slicer_.shape().n_layers - cuts_[cut];
    split.fits = split.n_layers_left == 0;
    return split;
  }

  // What the last device needs for the layers that those before it leave.
  absl::StatusOr<int64_t> LastDeviceBytes(int64_t n_ctx) const {
    std::vector<SplitPart> parts;
    ASSIGN_OR_RETURN(const size_t cut, Fill(devices_.size() - 1, n_ctx, parts));
    if (cut + 1 == cuts_.size()) return 0;
    ASSIGN_OR_RETURN(
        const PlanNumbers numbers,
        NumbersOf(devices_.size() - 1, cut, cuts_.size() - 1, n_ctx));
    return numbers.total_bytes;
  }

  // `asked` is the context for the plans' reasons: absent if it was solved.
  absl::Status FillPlans(std::optional<int64_t> asked, SplitPlan& split) const {
    for (SplitPart& part : split.parts) {
      RETURN_IF_ERROR(stop_());
      ASSIGN_OR_RETURN(const ModelShape slice,
                       slicer_.Slice(part.first_layer, part.n_layers));
      const SplitDevice& device = devices_[static_cast<size_t>(part.device)];
      ASSIGN_OR_RETURN(part.plan,
                       Layout(slice, OptionsOf(part.first_layer == 0, asked),
                              device.profile, device.budget_bytes));
    }
    return absl::OkStatus();
  }

  bool FitsAt(int64_t n_ctx) const {
    const auto split = At(n_ctx);
    return split.ok() && split->fits;
  }

 private:
  Splitter(const SplitProblem& problem, const PlanOptions& options)
      : slicer_(problem.slicer),
        options_(options),
        devices_(problem.devices),
        stop_(problem.stop),
        cuts_(Cuts(slicer_.shape())) {}

  // Fills the first `n_devices` in order; returns the index of the cut where
  // what is left begins.
  absl::StatusOr<size_t> Fill(size_t n_devices, int64_t n_ctx,
                              std::vector<SplitPart>& parts) const {
    size_t cut = 0;
    for (size_t d = 0; d < n_devices && cut + 1 < cuts_.size(); ++d) {
      ASSIGN_OR_RETURN(const size_t end, EndOfPart(d, cut, n_ctx));
      if (end == cut) continue;
      parts.push_back(
          {static_cast<int64_t>(d), cuts_[cut], cuts_[end] - cuts_[cut], {}});
      cut = end;
    }
    return cut;
  }

  // A projector stands before the first part.
  PlanOptions OptionsOf(bool is_first, std::optional<int64_t> n_ctx) const {
    PlanOptions options = options_;
    options.n_ctx = n_ctx;
    if (!is_first) options.engine.projector.reset();
    return options;
  }

  // The plan of the layers between two cuts on a device.
  absl::StatusOr<PlanNumbers> NumbersOf(size_t device, size_t begin, size_t end,
                                        int64_t n_ctx) const {
    RETURN_IF_ERROR(stop_());
    ASSIGN_OR_RETURN(const ModelShape slice,
                     slicer_.Slice(cuts_[begin], cuts_[end] - cuts_[begin]));
    return LayoutNumbers(slice, OptionsOf(begin == 0, n_ctx),
                         devices_[device].profile,
                         devices_[device].budget_bytes);
  }

  absl::StatusOr<bool> Fits(size_t device, size_t begin, size_t end,
                            int64_t n_ctx) const {
    ASSIGN_OR_RETURN(const PlanNumbers plan,
                     NumbersOf(device, begin, end, n_ctx));
    return plan.fits;
  }

  // Where the part of most layers that begins at a cut and fits the device
  // ends; `begin` if none fits.
  absl::StatusOr<size_t> EndOfPart(size_t device, size_t begin,
                                   int64_t n_ctx) const {
    // The rest brings the vocabulary projection along, so it is tried apart.
    size_t high = cuts_.size() - 1;
    ASSIGN_OR_RETURN(const bool all_fit, Fits(device, begin, high, n_ctx));
    if (all_fit) return high;
    // Parts that end up to `low` fit, those that end from `high` on do not.
    size_t low = begin;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      ASSIGN_OR_RETURN(const bool fits, Fits(device, begin, middle, n_ctx));
      (fits ? low : high) = middle;
    }
    return low;
  }

  const Slicer& slicer_;
  const PlanOptions options_;
  const std::vector<SplitDevice>& devices_;
  const StopCheck stop_;
  std::vector<int64_t> cuts_;
};

// The contexts that a split chooses among.
struct Contexts {
  int64_t cap;
  ContextGrid grid;
};

Contexts ContextsOf(const ModelShape& shape, const PlanOptions& options) {
  const int64_t cap = std::min(
      shape.n_ctx_train, options.max_inference_len.value_or(shape.n_ctx_train));
  return {cap, ContextGrid(cap, options.engine.policy == ReservePolicy::kExact
                                    ? ContextStep::kPage
                                    : ContextStep::kToken)};
}

// The context asked for, or the largest for which all layers find a device; 0
// if there is none.
absl::StatusOr<int64_t> ResolveContext(const Splitter& splitter,
                                       const PlanOptions& options,
                                       const Contexts& contexts) {
  if (options.n_ctx) return std::min(*options.n_ctx, contexts.cap);
  // Contexts below `low` fit, those from `high` on do not.
  int64_t low = 0;
  int64_t high = contexts.grid.size();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const SplitPlan split,
                     splitter.At(contexts.grid.At(middle)));
    (split.fits ? low : high) = split.fits ? middle + 1 : middle;
  }
  return low == 0 ? 0 : contexts.grid.At(low - 1);
}

// Finds changes with which all layers find a device.
class SplitAdviser {
 public:
  // Changes keep `n_ctx` tokens of context. `last_bytes` is what the last
  // device needs without a change.
  SplitAdviser(const SplitProblem& problem, const PlanOptions& options,
               int64_t n_ctx, int64_t last_bytes)
      : problem_(problem),
        options_(options),
        n_ctx_(n_ctx),
        last_bytes_(last_bytes) {}

  // Whether all layers find a device with the change, which is then kept.
  bool Try(const Change& change) { return TryAt(change, n_ctx_); }

  void TryUbatch() {
    TrySmallerUbatch(options_.n_ubatch,
                     [&](const Change& change) { return Try(change); });
  }

  void TrySlots() {
    const auto change = MostSlots(options_.n_slots, [&](const Change& fewer) {
      return Fits(fewer, n_ctx_);
    });
    if (change) Try(*change);
  }

  // The largest context up to the one asked for.
  void TryContext(Change change) {
    PlanOptions options = Changed(options_, change);
    if (!options.n_ctx) return;  // the smallest has been tried
    options.max_inference_len = std::exchange(options.n_ctx, std::nullopt);
    const auto splitter = Splitter::Create(problem_, options);
    if (!splitter.ok()) return;
    const auto found = ResolveContext(
        *splitter, options, ContextsOf(problem_.slicer.shape(), options));
    const int64_t n_ctx = found.value_or(0);
    if (n_ctx == 0) return;
    change.n_ctx = n_ctx;
    TryAt(change, n_ctx);
  }

  // Q8_0, if keys and values take more and may have it on every device.
  std::optional<DType> SmallerKvType() const {
    constexpr DType kSmaller = DType::kQ8_0;
    constexpr int64_t kElements = 256;  // whole blocks of every type
    const auto bytes_of = [](DType type) {
      return RowBytes(type, kElements).value_or(0);
    };
    const bool take_more =
        std::max(bytes_of(options_.k_type), bytes_of(options_.v_type)) >
        bytes_of(kSmaller);
    const bool may_have =
        std::all_of(problem_.devices.begin(), problem_.devices.end(),
                    [](const SplitDevice& device) {
                      return HasKvType(device.profile, kSmaller);
                    });
    return take_more && may_have ? std::optional(kSmaller) : std::nullopt;
  }

  std::vector<Suggestion> Take() { return std::move(suggestions_); }
  bool empty() const { return suggestions_.empty(); }

 private:
  absl::StatusOr<Splitter> With(const Change& change) const {
    return Splitter::Create(problem_, Changed(options_, change));
  }

  bool Fits(const Change& change, int64_t n_ctx) const {
    const auto splitter = With(change);
    return splitter.ok() && splitter->FitsAt(n_ctx);
  }

  // Try with another context.
  bool TryAt(const Change& change, int64_t n_ctx) {
    const auto splitter = With(change);
    if (!splitter.ok() || !splitter->FitsAt(n_ctx)) return false;
    const int64_t bytes = splitter->LastDeviceBytes(n_ctx).value_or(0);
    suggestions_.push_back({change, last_bytes_ - bytes, n_ctx});
    return true;
  }

  const SplitProblem problem_;
  const PlanOptions& options_;
  const int64_t n_ctx_;
  const int64_t last_bytes_;
  std::vector<Suggestion> suggestions_;
};

// Says what a split for `n_ctx` tokens that does not fit lacks, and what helps.
absl::Status Advise(const SplitProblem& problem, const PlanOptions& options,
                    int64_t n_ctx, SplitPlan& split) {
  ASSIGN_OR_RETURN(const Splitter splitter, Splitter::Create(problem, options));
  ASSIGN_OR_RETURN(const int64_t last_bytes, splitter.LastDeviceBytes(n_ctx));
  split.missing_bytes =
      std::max<int64_t>(last_bytes - problem.devices.back().budget_bytes, 0);
  SplitAdviser adviser(problem, options, n_ctx, last_bytes);
  const std::optional<DType> kv_type = adviser.SmallerKvType();
  adviser.TryUbatch();
  if (kv_type) adviser.Try({.kv_type = kv_type});
  adviser.TrySlots();
  adviser.TryContext({});
  const Change all = EveryReduction(options, kv_type);
  if (adviser.empty() && !all.empty() && !adviser.Try(all)) {
    adviser.TryContext(all);
  }
  split.suggestions = adviser.Take();
  return problem.stop();  // a change that was not tried to the end is none
}

absl::Status CheckSplit(const ModelShape& shape, const PlanOptions& options,
                        const std::vector<SplitDevice>& devices) {
  const auto n_devices = static_cast<int64_t>(devices.size());
  if (n_devices < 1 || n_devices > kMaxSplitDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a split over ", n_devices, " devices, not 1 to ", kMaxSplitDevices));
  }
  if (shape.n_layers * n_devices > kMaxSplitLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a split of ", shape.n_layers, " layers over ", n_devices,
                     " devices: their product is ", shape.n_layers * n_devices,
                     ", at most ", kMaxSplitLayers, " is accepted"));
  }
  if (options.draft_source == DraftSource::kMtp) {
    return absl::InvalidArgumentError(
        "draft_source is mtp, but devices share the layers: an MTP head runs "
        "beside a whole model only; use prompt lookup, or one device");
  }
  if (options.n_cpu_experts != 0) {
    return absl::InvalidArgumentError(
        "n_cpu_experts asks for experts in host memory, but devices share the "
        "layers; leave it out, and let the CPU be the last device, which takes "
        "whole layers");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelShape> SliceLayers(const ModelShape& shape, int64_t first,
                                       int64_t n) {
  return Slicer(shape).Slice(first, n);
}

absl::StatusOr<SplitPlan> SplitLayers(const ModelShape& shape,
                                      const PlanOptions& options,
                                      const std::vector<SplitDevice>& devices,
                                      StopCheck stop) {
  RETURN_IF_ERROR(CheckSplit(shape, options, devices));
  const Slicer slicer(shape);
  const SplitProblem problem = {slicer, devices, stop};
  ASSIGN_OR_RETURN(const Splitter splitter, Splitter::Create(problem, options));
  const Contexts contexts = ContextsOf(shape, options);
  ASSIGN_OR_RETURN(const int64_t found,
                   ResolveContext(splitter, options, contexts));
  // Where nothing fits the parts are those of the smallest context.
  const int64_t n_ctx = found > 0 ? found : contexts.grid.At(0);
  ASSIGN_OR_RETURN(SplitPlan split, splitter.At(n_ctx));
  split.n_ctx = found;
  const bool is_capped = !options.n_ctx && found == contexts.cap;
  // A part alone would have the same reason, unless all of them decide.
  RETURN_IF_ERROR(splitter.FillPlans(
      options.n_ctx || is_capped ? options.n_ctx : n_ctx, split));
  if (!split.parts.empty()) {
    split.n_ctx_reason = split.parts.front().plan.n_ctx_reason;
  }
  if (!options.n_ctx && !is_capped) {
    split.n_ctx_reason =
        found == 0
            ? absl::StrCat("not even ", n_ctx,
                           " tokens fit: ", split.n_layers_left,
                           " layers find no device")
            : absl::StrCat(WithThousands(found),
                           " tokens are the largest context with which every "
                           "layer finds a device");
    for (SplitPart& part : split.parts) {
      part.plan.context_limit = ContextLimit::kMemory;
      part.plan.n_ctx_reason = split.n_ctx_reason;
    }
  }
  if (!split.fits) {
    RETURN_IF_ERROR(Advise(problem, options, n_ctx, split));
  }
  return split;
}

}  // namespace plimsoll::planner
