#include "planner/model/recurrent_shape.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

absl::Status IsNot(const Hyperparameters& keys, absl::string_view suffix,
                   int64_t value, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "metadata \"", keys.Key(suffix), "\" is ", value, ", not ", what));
}

// The widths of a layer with heads, by its keys `A.ssm.*`.
absl::StatusOr<RecurrentShape> ReadHeads(const Hyperparameters& keys,
                                         MixerKind mixer) {
  RecurrentShape widths;
  ASSIGN_OR_RETURN(widths.n_taps,
                   keys.Int("ssm.conv_kernel", 2, ModelShape::kMaxTaps));
  ASSIGN_OR_RETURN(widths.state_dim,
                   keys.Int("ssm.state_size", 1, ModelShape::kMaxStateDim));
  ASSIGN_OR_RETURN(widths.n_heads,
                   keys.Int("ssm.time_step_rank", 1, ModelShape::kMaxDim));
  ASSIGN_OR_RETURN(widths.n_groups,
                   keys.Int("ssm.group_count", 1, widths.n_heads));
  ASSIGN_OR_RETURN(const int64_t inner,
                   keys.Int("ssm.inner_size", 1, ModelShape::kMaxDim));
  widths.head_dim = inner / widths.n_heads;
  if (inner % widths.n_heads != 0 ||
      widths.head_dim > ModelShape::kMaxStateDim) {
    return IsNot(keys, "ssm.inner_size", inner,
                 absl::StrCat(widths.n_heads, " heads of at most ",
                              ModelShape::kMaxStateDim, " elements"));
  }
  if (mixer == MixerKind::kDeltaNet && widths.head_dim != widths.state_dim) {
    return IsNot(keys, "ssm.inner_size", inner,
                 absl::StrCat(widths.n_heads, " heads of ", widths.state_dim,
                              " elements, as its keys have"));
  }
  if (widths.n_heads % widths.n_groups != 0) {
    return IsNot(keys, "ssm.group_count", widths.n_groups,
                 absl::StrCat("a divisor of ", widths.n_heads, " heads"));
  }
  // Queries and keys, or B and C, go through the convolution too.
  widths.n_channels = inner + 2 * widths.n_groups * widths.state_dim;
  // Beside these there are gates of the output, and one or two numbers of each
  // head.
  widths.product_dim = widths.n_channels + inner +
                       widths.n_heads * (mixer == MixerKind::kDeltaNet ? 2 : 1);
  if (widths.n_channels <= ModelShape::kMaxDim) return widths;
  return IsNot(keys, "ssm.group_count", widths.n_groups,
               absl::StrCat("small enough for ", ModelShape::kMaxDim,
                            " channels of a convolution"));
}

absl::StatusOr<RecurrentShape> ReadWidths(const Hyperparameters& keys,
                                          MixerKind mixer, int64_t model_dim) {
  if (mixer != MixerKind::kShortConv) return ReadHeads(keys, mixer);
  RecurrentShape widths;
  ASSIGN_OR_RETURN(widths.n_taps,
                   keys.Int("shortconv.l_cache", 2, ModelShape::kMaxTaps));
  widths.n_channels = model_dim;
  widths.product_dim = 3 * model_dim;  // with gates before and after
  return widths;
}

// Which layers keep a state: true = it does.
absl::StatusOr<std::vector<bool>> RecurrentLayers(
    const Hyperparameters& keys, const Architecture& architecture,
    const ModelShape& shape) {
  if (architecture.recurrent_layers == RecurrentRule::kInterval) {
    ASSIGN_OR_RETURN(const auto flags,
                     keys.Flags("attention.recurrent_layers", shape.n_layers));
    if (flags) return *flags;
  }
  constexpr int64_t kInterval = 4;
  ASSIGN_OR_RETURN(const int64_t interval,
                   keys.Int("full_attention_interval", 1,
                            ModelShape::kMaxLayers, kInterval));
  std::vector<bool> layers(shape.layers.size());
  for (size_t il = 0; il < layers.size(); ++il) {
    layers[il] = architecture.recurrent_layers == RecurrentRule::kWithoutKvHeads
                     ? shape.layers[il].n_kv_heads == 0
                     : static_cast<int64_t>(il + 1) % interval != 0;
  }
  return layers;
}

}  // namespace

absl::Status ReadRecurrentLayers(const Hyperparameters& keys,
                                 const Architecture& architecture,
                                 ModelShape& shape) {
  if (architecture.recurrent_layers == RecurrentRule::kNone) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(shape.recurrent,
                   ReadWidths(keys, architecture.recurrent, shape.model_dim));
  ASSIGN_OR_RETURN(const std::vector<bool> is_recurrent,
                   RecurrentLayers(keys, architecture, shape));
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    LayerShape& layer = shape.layers[il];
    if (is_recurrent[il]) {
      layer.n_kv_heads = 0;
      const bool is_ffn =
          architecture.has_single_sublayers && layer.ffn_dim > 0;
      layer.mixer = is_ffn ? MixerKind::kNone : architecture.recurrent;
    } else if (layer.n_kv_heads == 0) {
      return IsNot(keys, "attention.head_count_kv", 0,
                   absl::StrCat("at least 1 in layer ", il));
    }
    if (!architecture.has_single_sublayers || layer.mixer == MixerKind::kNone) {
      continue;
    }
    if (layer.ffn_dim > 0) {
      return IsNot(keys, "feed_forward_length", layer.ffn_dim,
                   absl::StrCat("0 in layer ", il, ", which attends"));
    }
    layer.ffn = FfnKind::kNone;
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
