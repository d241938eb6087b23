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

  // Fills the devices in order for `n_ctx` tokens.
  absl::StatusOr<SplitPlan> At(int64_t n_ctx) const {
    SplitPlan split = {};
    split.n_ctx = n_ctx;
    size_t cut = 0;  // index of where the next part begins
    for (size_t d = 0; d < devices_.size() && cut + 1 < cuts_.size(); ++d) {
      ASSIGN_OR_RETURN(auto part, LargestPart(d, cut, n_ctx));
      if (!part) continue;
      cut = part->second;
      split.parts.push_back(std::move(part->first));
    }
    split.n_layers_left = shape_.n_layers - cuts_[cut];
    split.fits = split.n_layers_left == 0;
    return split;
  }

 private:
  using Part = std::optional<std::pair<SplitPart, size_t>>;  // and its end

  absl::StatusOr<std::optional<SplitPart>> Try(size_t device, size_t begin,
                                               size_t end,
                                               int64_t n_ctx) const {
    const int64_t first = cuts_[begin];
    const int64_t n = cuts_[end] - first;
    ASSIGN_OR_RETURN(const ModelShape slice, SliceLayers(shape_, first, n));
    LoadOptions options = options_;
    options.n_ctx = n_ctx;
    ASSIGN_OR_RETURN(MemoryPlan plan,
                     Layout(slice, options, devices_[device].profile,
                            devices_[device].budget_bytes));
    if (!plan.fits) return std::nullopt;
    return SplitPart{static_cast<int64_t>(device), first, n, std::move(plan)};
  }

  // The part of most layers that begins at a cut and fits the device.
  absl::StatusOr<Part> LargestPart(size_t device, size_t begin,
                                   int64_t n_ctx) const {
    // The rest brings the vocabulary projection along, so it is tried apart.
    const size_t last = cuts_.size() - 1;
    ASSIGN_OR_RETURN(auto rest, Try(device, begin, last, n_ctx));
    if (rest) return Part({*std::move(rest), last});
    Part best;
    size_t low = begin + 1;
    size_t high = last;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      ASSIGN_OR_RETURN(auto part, Try(device, begin, middle, n_ctx));
      if (part) {
        best = {*std::move(part), middle};
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return best;
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
  if (options.n_ctx) return splitter.At(std::min(*options.n_ctx, cap));
  const ContextGrid grid(cap, options.policy != ReservePolicy::kExact);
  int64_t low = 0;
  int64_t high = grid.size();
  std::optional<SplitPlan> best;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(SplitPlan split, splitter.At(grid.At(middle)));
    if (split.fits) {
      best = std::move(split);
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (best) return *std::move(best);
  ASSIGN_OR_RETURN(SplitPlan least, splitter.At(grid.At(0)));
  least.n_ctx = 0;
  return least;
}

}  // namespace plimsoll::planner
