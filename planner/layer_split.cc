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
    size_t cut = 0;  // index of where the next part begins
    for (size_t d = 0; d < devices_.size() && cut + 1 < cuts_.size(); ++d) {
      ASSIGN_OR_RETURN(const size_t end, EndOfPart(d, cut, n_ctx));
      if (end == cut) continue;
      split.parts.push_back(
          {static_cast<int64_t>(d), cuts_[cut], cuts_[end] - cuts_[cut], {}});
      cut = end;
    }
    split.n_layers_left = shape_.n_layers - cuts_[cut];
    split.fits = split.n_layers_left == 0;
    return split;
  }

  absl::Status FillPlans(SplitPlan& split) const {
    for (SplitPart& part : split.parts) {
      ASSIGN_OR_RETURN(const ModelShape slice,
                       SliceLayers(shape_, part.first_layer, part.n_layers));
      const SplitDevice& device = devices_[static_cast<size_t>(part.device)];
      ASSIGN_OR_RETURN(
          part.plan,
          Layout(slice, OptionsOf(part.first_layer == 0, split.n_ctx),
                 device.profile, device.budget_bytes));
    }
    return absl::OkStatus();
  }

 private:
  // A projector stands before the first part.
  LoadOptions OptionsOf(bool is_first, int64_t n_ctx) const {
    LoadOptions options = options_;
    options.n_ctx = n_ctx;
    if (!is_first) options.projector.reset();
    return options;
  }

  // Whether a device holds the layers between two cuts.
  absl::StatusOr<bool> Fits(size_t device, size_t begin, size_t end,
                            int64_t n_ctx) const {
    ASSIGN_OR_RETURN(
        const ModelShape slice,
        SliceLayers(shape_, cuts_[begin], cuts_[end] - cuts_[begin]));
    ASSIGN_OR_RETURN(
        const PlanNumbers plan,
        LayoutNumbers(slice, OptionsOf(begin == 0, n_ctx),
                      devices_[device].profile, devices_[device].budget_bytes));
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
  int64_t cap = shape.n_ctx_train;
  cap = std::min(cap, options.max_inference_len.value_or(cap));
  const ContextGrid grid(cap, options.policy != ReservePolicy::kExact);
  // Contexts below `low` fit, those from `high` on do not.
  int64_t low = 0;
  int64_t high = options.n_ctx ? 0 : grid.size();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const SplitPlan split, splitter.At(grid.At(middle)));
    (split.fits ? low : high) = split.fits ? middle + 1 : middle;
  }
  const int64_t n_ctx = options.n_ctx ? std::min(*options.n_ctx, cap)
                                      : grid.At(std::max<int64_t>(low - 1, 0));
  ASSIGN_OR_RETURN(SplitPlan split, splitter.At(n_ctx));
  RETURN_IF_ERROR(splitter.FillPlans(split));
  if (!options.n_ctx && low == 0) split.n_ctx = 0;
  return split;
}

}  // namespace plimsoll::planner
