#include "planner/layer_split.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "planner/auto_context.h"
#include "planner/change.h"
#include "planner/explain.h"
#include "planner/kv_cache_bytes.h"

namespace plimsoll::planner {
namespace {

// The layer of "blk.N.…", or nothing for what belongs to none.
std::optional<int64_t> LayerOf(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "blk.")) return std::nullopt;
  int64_t layer = 0;
  if (!absl::SimpleAtoi(name.substr(0, name.find('.')), &layer)) {
    return std::nullopt;
  }
  return layer;
}

// Whether a tensor of no layer goes to this part.
bool GoesTo(const WeightTensor& tensor, bool tied_output, bool is_first,
            bool is_last) {
  if (absl::StartsWith(tensor.name, "rope_")) return true;
  if (absl::StartsWith(tensor.name, "output")) return is_last;
  if (absl::StartsWith(tensor.name, "altup_unembd")) return is_last;
  if (tensor.kind == WeightKind::kEmbedding && tied_output && is_last) {
    return true;
  }
  return is_first;
}

// Where the model may be cut: no layer after reads keys and values of one
// before. Both ends are among them.
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
  Splitter(const ModelShape& shape, const LoadOptions& options,
           const std::vector<SplitDevice>& devices)
      : shape_(shape),
        options_(options),
        devices_(devices),
        cuts_(Cuts(shape)) {}

  // Fills the devices in order for `n_ctx` tokens, without the parts' plans.
  absl::StatusOr<SplitPlan> At(int64_t n_ctx) const {
    SplitPlan split = {};
    split.n_ctx = n_ctx;
    ASSIGN_OR_RETURN(const size_t cut,
                     Fill(devices_.size(), n_ctx, split.parts));
    split.n_layers_left = shape_.n_layers - cuts_[cut];
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
      ASSIGN_OR_RETURN(const ModelShape slice,
                       SliceLayers(shape_, part.first_layer, part.n_layers));
      const SplitDevice& device = devices_[static_cast<size_t>(part.device)];
      ASSIGN_OR_RETURN(part.plan,
                       Layout(slice, OptionsOf(part.first_layer == 0, asked),
                              device.profile, device.budget_bytes));
    }
    return absl::OkStatus();
  }

 private:
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
  LoadOptions OptionsOf(bool is_first, std::optional<int64_t> n_ctx) const {
    LoadOptions options = options_;
    options.n_ctx = n_ctx;
    if (!is_first) options.projector.reset();
    return options;
  }

  // The plan of the layers between two cuts on a device.
  absl::StatusOr<PlanNumbers> NumbersOf(size_t device, size_t begin, size_t end,
                                        int64_t n_ctx) const {
    ASSIGN_OR_RETURN(
        const ModelShape slice,
        SliceLayers(shape_, cuts_[begin], cuts_[end] - cuts_[begin]));
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

  const ModelShape& shape_;
  const LoadOptions& options_;
  const std::vector<SplitDevice>& devices_;
  std::vector<int64_t> cuts_;
};

// The contexts that a split chooses among.
struct Contexts {
  int64_t cap;
  ContextGrid grid;
};

Contexts ContextsOf(const ModelShape& shape, const LoadOptions& options) {
  const int64_t cap = std::min(
      shape.n_ctx_train, options.max_inference_len.value_or(shape.n_ctx_train));
  return {cap, ContextGrid(cap, options.policy != ReservePolicy::kExact)};
}

// The context asked for, or the largest for which all layers find a device; 0
// if there is none.
absl::StatusOr<int64_t> ResolveContext(const Splitter& splitter,
                                       const LoadOptions& options,
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
  SplitAdviser(const ModelShape& shape, const std::vector<SplitDevice>& devices,
               int64_t last_bytes)
      : shape_(shape), devices_(devices), last_bytes_(last_bytes) {}

  // Whether all layers find a device with the change, which is then kept.
  bool Try(const Change& change) {
    if (!Fits(change)) return false;
    const int64_t bytes = Splitter(shape_, change.options, devices_)
                              .LastDeviceBytes(change.n_ctx)
                              .value_or(0);
    suggestions_.push_back({change.text, last_bytes_ - bytes, change.n_ctx});
    return true;
  }

  void TryUbatch(const Change& base) {
    TrySmallerUbatch(base, [&](const Change& change) { return Try(change); });
  }

  void TrySlots(const Change& base) {
    const auto change =
        WithMostSlots(base, [&](const Change& fewer) { return Fits(fewer); });
    if (change) Try(*change);
  }

  // The largest context up to the one asked for.
  void TryContext(Change change) {
    if (!change.options.n_ctx) return;  // the smallest has been tried
    change.options.max_inference_len =
        std::exchange(change.options.n_ctx, std::nullopt);
    const Splitter splitter(shape_, change.options, devices_);
    const auto found = ResolveContext(splitter, change.options,
                                      ContextsOf(shape_, change.options));
    change.n_ctx = found.value_or(0);
    if (change.n_ctx == 0) return;
    change.Append(absl::StrCat("--n-ctx ", change.n_ctx));
    Try(change);
  }

  // Q8_0, if keys and values take more and may have it on every device.
  std::optional<DType> SmallerKvType(const LoadOptions& options) const {
    constexpr DType kSmaller = DType::kQ8_0;
    constexpr int64_t kElements = 256;  // whole blocks of every type
    const auto bytes_of = [](DType type) {
      return RowBytes(type, kElements).value_or(0);
    };
    const bool take_more =
        std::max(bytes_of(options.k_type), bytes_of(options.v_type)) >
        bytes_of(kSmaller);
    const bool may_have = std::all_of(
        devices_.begin(), devices_.end(), [](const SplitDevice& device) {
          return HasKvType(device.profile, kSmaller);
        });
    return take_more && may_have ? std::optional(kSmaller) : std::nullopt;
  }

  std::vector<Suggestion> Take() { return std::move(suggestions_); }
  bool empty() const { return suggestions_.empty(); }

 private:
  bool Fits(const Change& change) const {
    const auto split =
        Splitter(shape_, change.options, devices_).At(change.n_ctx);
    return split.ok() && split->fits;
  }

  const ModelShape& shape_;
  const std::vector<SplitDevice>& devices_;
  const int64_t last_bytes_;
  std::vector<Suggestion> suggestions_;
};

// Says what a split for `n_ctx` tokens that does not fit lacks, and what helps.
absl::Status Advise(const ModelShape& shape, const LoadOptions& options,
                    const std::vector<SplitDevice>& devices, int64_t n_ctx,
                    SplitPlan& split) {
  const Splitter splitter(shape, options, devices);
  ASSIGN_OR_RETURN(const int64_t last_bytes, splitter.LastDeviceBytes(n_ctx));
  split.missing_bytes =
      std::max<int64_t>(last_bytes - devices.back().budget_bytes, 0);
  SplitAdviser adviser(shape, devices, last_bytes);
  const Change base = {options, n_ctx, ""};
  const std::optional<DType> kv_type = adviser.SmallerKvType(options);
  adviser.TryUbatch(base);
  if (kv_type) adviser.Try(WithKvType(base, *kv_type));
  adviser.TrySlots(base);
  adviser.TryContext(base);
  const Change all = WithLeast(base, kv_type);
  if (adviser.empty() && !all.text.empty() && !adviser.Try(all)) {
    adviser.TryContext(all);
  }
  split.suggestions = adviser.Take();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelShape> SliceLayers(const ModelShape& shape, int64_t first,
                                       int64_t n) {
  if (first < 0 || n < 1 || n > shape.n_layers - first) {
    return absl::InvalidArgumentError(
        absl::StrCat("layers ", first, " to ", first + n - 1,
                     " are not among the model's ", shape.n_layers));
  }
  const bool is_first = first == 0;
  const bool is_last = first + n == shape.n_layers;
  ModelShape slice = shape;
  slice.n_layers = n;
  slice.layers.assign(shape.layers.begin() + first,
                      shape.layers.begin() + first + n);
  for (LayerShape& layer : slice.layers) {
    layer.kv_source -= first;
    if (layer.kv_source >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a layer from ", first, " on reads keys and values of layer ",
        layer.kv_source + first));
  }
  std::erase_if(slice.weights, [&](const WeightTensor& tensor) {
    const auto layer = LayerOf(tensor.name);
    if (layer) return *layer < first || *layer >= first + n;
    return !GoesTo(tensor, shape.tied_output, is_first, is_last);
  });
  if (!is_first) slice.vocab = {};
  // A part without the vocabulary projection has no logits.
  if (!is_last) slice.vocab_size = 1;
  return slice;
}

absl::StatusOr<SplitPlan> SplitLayers(const ModelShape& shape,
                                      const LoadOptions& options,
                                      const std::vector<SplitDevice>& devices) {
  const auto n_devices = static_cast<int64_t>(devices.size());
  if (n_devices < 1 || n_devices > kMaxSplitDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a split over ", n_devices, " devices, not 1 to ", kMaxSplitDevices));
  }
  const Splitter splitter(shape, options, devices);
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
    RETURN_IF_ERROR(Advise(shape, options, devices, n_ctx, split));
  }
  return split;
}

}  // namespace plimsoll::planner
