#include "worker/graph/graph_parameters.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/graph/rope_scaling.h"

namespace plimsoll::worker {
namespace {

using planner::Architecture;
using planner::GgufHeader;

std::string KeyOf(const Architecture& architecture, absl::string_view suffix) {
  return absl::StrCat(architecture.name, ".", suffix);
}

// The metadata value of `key`, or `fallback` if absent.
// Errors: kInvalidArgument if it is not a finite positive number.
absl::StatusOr<double> PositiveFloat(const GgufHeader& header,
                                     const std::string& key, double fallback) {
  ASSIGN_OR_RETURN(const std::optional<double> value, header.Float(key));
  const double result = value.value_or(fallback);
  if (!std::isfinite(result) || result <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be a positive number, got ", result));
  }
  return result;
}

// Returns the cap, or 0 if there is none.
absl::StatusOr<float> ReadCap(const Architecture& architecture,
                              const GgufHeader& header,
                              const planner::SoftCap& cap) {
  if (cap.key.empty()) return 0.0f;
  const std::string key = KeyOf(architecture, cap.key);
  ASSIGN_OR_RETURN(const std::optional<double> value, header.Float(key));
  const auto result = static_cast<float>(value.value_or(cap.fallback));
  if (!std::isfinite(result) || result < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be a number of at least 0, got ", result));
  }
  return result;
}

// A factor of the model, which is 1 if the file does not have it.
// Errors: kInvalidArgument if it is not within its limits.
absl::StatusOr<double> ReadScale(const Architecture& architecture,
                                 const GgufHeader& header,
                                 absl::string_view suffix) {
  // The least one keeps floats that depend on it from vanishing.
  return ReadFactor(header, KeyOf(architecture, suffix), 1 / kMaxFactor, 1);
}

// Sets what depends on the scales of the embedding, the residual stream and the
// logits.
absl::Status ReadScales(const Architecture& architecture,
                        const GgufHeader& header,
                        const planner::ModelShape& shape,
                        GraphParameters& parameters) {
  ASSIGN_OR_RETURN(
      const double eps,
      PositiveFloat(header, KeyOf(architecture, architecture.EpsilonKey()), 0));
  double residual = 1;
  double embedding = 1;
  double logits = 1;
  if (architecture.has_scale_keys) {
    ASSIGN_OR_RETURN(residual,
                     ReadScale(architecture, header, "residual_scale"));
    ASSIGN_OR_RETURN(embedding,
                     ReadScale(architecture, header, "embedding_scale"));
  }
  if (architecture.has_scale_keys || architecture.multiplies_logits) {
    ASSIGN_OR_RETURN(logits, ReadScale(architecture, header, "logit_scale"));
  }
  parameters.rms_eps = static_cast<float>(eps);
  parameters.stream_eps = static_cast<float>(eps / (residual * residual));
  parameters.embedding_scale =
      architecture.scales_embedding
          ? std::sqrt(static_cast<float>(shape.model_dim))
          : static_cast<float>(embedding / residual);
  parameters.output_norm_scale =
      static_cast<float>(architecture.multiplies_logits ? logits : 1 / logits);
  parameters.norms_subtract_means = architecture.norms_subtract_means;
  return absl::OkStatus();
}

// The width of a head in the layers that have a window, or in those that have
// none; 0 if there is no such layer.
int64_t HeadDim(const planner::ModelShape& shape, bool has_window) {
  for (const planner::LayerShape& layer : shape.layers) {
    if ((layer.window > 0) == has_window) return layer.head_dim;
  }
  return 0;
}

// How many elements of a head are rotated: in full-attention layers from
// A.rope.dimension_count. Layers with a window have A.rope.dimension_count_swa,
// or rotate as much as the others, as far as their heads are that wide. It is 0
// if there is no such layer.
absl::StatusOr<int64_t> ReadRotated(const Architecture& architecture,
                                    const GgufHeader& header,
                                    const planner::ModelShape& shape,
                                    bool has_window) {
  const int64_t head_dim = HeadDim(shape, has_window);
  if (head_dim == 0) return 0;
  std::string key = KeyOf(architecture, "rope.dimension_count");
  ASSIGN_OR_RETURN(std::optional<int64_t> value, header.Int(key));
  if (has_window) {
    const int64_t fallback = std::min(value.value_or(head_dim), head_dim);
    key += "_swa";
    ASSIGN_OR_RETURN(value, header.Int(key));
    if (!value) value = fallback;
  }
  const int64_t n_rot = value.value_or(head_dim);
  if (n_rot > 0 && n_rot <= head_dim && n_rot % 2 == 0) return n_rot;
  return absl::InvalidArgumentError(absl::StrCat(
      key, " must be even and within head_dim ", head_dim, ", got ", n_rot));
}

// The rope of `n_rot` elements of a head from `A.rope.*`: base, scaling and
// factors of frequencies.
absl::StatusOr<RopeParameters> ReadRope(const Architecture& architecture,
                                        const GgufHeader& header,
                                        const GraphInputs& inputs,
                                        int64_t n_rot) {
  const std::string prefix = KeyOf(architecture, "rope.");
  const bool is_adjacent =
      architecture.rope_pairs == planner::RopePairs::kAdjacent;
  RopeParameters rope = {.base = 0,
                         .scale = 1.0,
                         .n_rot = n_rot,
                         .style = is_adjacent ? kernels::RopeStyle::kNorm
                                              : kernels::RopeStyle::kNeox};
  ASSIGN_OR_RETURN(rope.base,
                   PositiveFloat(header, prefix + "freq_base", 10'000));
  RETURN_IF_ERROR(ReadRopeScaling(architecture, header, rope));
  ASSIGN_OR_RETURN(rope.freq_factors,
                   FindFreqFactors(architecture, header, inputs));
  if (architecture.rope_pairs == planner::RopePairs::kNone) rope.n_rot = 0;
  if (!architecture.rope_has_switch) return rope;
  ASSIGN_OR_RETURN(const auto is_on, header.Bool(prefix + "scaling.finetuned"));
  if (!is_on.value_or(true)) rope.n_rot = 0;
  return rope;
}

// The rope of layers with a window.
absl::StatusOr<RopeParameters> ReadWindowRope(const Architecture& architecture,
                                              const GgufHeader& header,
                                              const GraphInputs& inputs,
                                              int64_t n_rot) {
  ASSIGN_OR_RETURN(const RopeParameters rope,
                   ReadRope(architecture, header, inputs, n_rot));
  if (architecture.window_rope == planner::WindowRope::kAsOthers ||
      architecture.window_rope == planner::WindowRope::kOnly) {
    return rope;
  }
  RopeParameters result = {.base = rope.base,
                           .scale = 1.0,
                           .n_rot = rope.n_rot,
                           .style = rope.style};
  if (architecture.window_rope == planner::WindowRope::kUnscaled) return result;
  ASSIGN_OR_RETURN(
      result.base,
      PositiveFloat(header, KeyOf(architecture, "rope.freq_base_swa"), 10'000));
  return result;
}

absl::StatusOr<QueryGrowth> ReadQueryGrowth(const Architecture& architecture,
                                            const GgufHeader& header) {
  using planner::GrowingQueries;
  constexpr double kUnrotatedScale = 0.1;
  constexpr int64_t kUnrotatedPeriod = 8'192;
  const GrowingQueries growing = architecture.growing_queries;
  QueryGrowth growth;
  if (growing == GrowingQueries::kNone) return growth;
  ASSIGN_OR_RETURN(
      growth.scale,
      ReadFactor(header, KeyOf(architecture, "attention.temperature_scale"), 0,
                 growing == GrowingQueries::kUnrotated ? kUnrotatedScale : 0));
  const planner::Hyperparameters keys(header, std::string(architecture.name));
  if (growing == GrowingQueries::kAll) {
    ASSIGN_OR_RETURN(growth.period, OriginalContext(keys));
    return growth;
  }
  growth.offset = 1;
  ASSIGN_OR_RETURN(growth.period, keys.Int("attention.temperature_length", 1,
                                           planner::ModelShape::kMaxContext,
                                           kUnrotatedPeriod));
  return growth;
}

absl::StatusOr<float> AttentionScale(const Architecture& architecture,
                                     const GgufHeader& header,
                                     const planner::ModelShape& shape) {
  if (architecture.score_scale == planner::ScoreScale::kOne) return 1.0f;
  constexpr absl::string_view kSuffix = "attention.scale";
  if (architecture.has_scale_keys &&
      header.metadata.contains(KeyOf(architecture, kSuffix))) {
    ASSIGN_OR_RETURN(const double scale,
                     ReadScale(architecture, header, kSuffix));
    return static_cast<float>(scale);
  }
  // The file counts all layers of the model; these may be some of them.
  ASSIGN_OR_RETURN(const auto n_layers,
                   header.Int(KeyOf(architecture, "block_count")));
  const bool is_by_width = architecture.width_scaled_layers > 0 &&
                           n_layers == architecture.width_scaled_layers;
  int64_t dim = shape.layers.front().head_dim;
  if (is_by_width) dim = shape.model_dim / shape.n_heads;
  if (shape.latent.rank > 0) dim = shape.latent.key_dim;
  ASSIGN_OR_RETURN(const double factor, ReadScoreFactor(architecture, header));
  return static_cast<float>(factor) / std::sqrt(static_cast<float>(dim));
}

kernels::Activation ActivationOf(const Architecture& architecture) {
  switch (architecture.activation) {
    case planner::GateActivation::kSilu:
      return kernels::Activation::kSilu;
    case planner::GateActivation::kGeluTanh:
      return kernels::Activation::kGeluTanh;
    case planner::GateActivation::kSquaredRelu:
      return kernels::Activation::kRelu;
    case planner::GateActivation::kClampedSwish:
      break;
  }
  return kernels::Activation::kClampedSwish;
}

// True if the choice of experts has a bias.
bool HasChoiceBias(const planner::ModelShape& shape) {
  return absl::c_any_of(shape.weights, [](const auto& tensor) {
    return absl::EndsWith(tensor.name, ".exp_probs_b.bias");
  });
}

absl::StatusOr<kernels::RouterGate> ReadRouterGate(
    const Architecture& architecture, const GgufHeader& header,
    const planner::ModelShape& shape) {
  const std::string key = KeyOf(architecture, "expert_gating_func");
  ASSIGN_OR_RETURN(const std::optional<int64_t> number, header.Int(key));
  switch (number.value_or(0)) {
    case 0:
      break;
    case 1:
      return kernels::RouterGate::kSoftmax;
    case 2:
      return kernels::RouterGate::kSigmoid;
    case 3:
      return kernels::RouterGate::kSoftmaxOfChosen;
    default:
      return absl::UnimplementedError(absl::StrCat(
          key, " ", *number, " cannot be run by this build (1 to 3 can)"));
  }
  switch (architecture.router_gate) {
    case planner::RouterGate::kSoftmax:
      return kernels::RouterGate::kSoftmax;
    case planner::RouterGate::kSigmoid:
      return kernels::RouterGate::kSigmoid;
    case planner::RouterGate::kByBias:
      return HasChoiceBias(shape) ? kernels::RouterGate::kSigmoid
                                  : kernels::RouterGate::kSoftmax;
    case planner::RouterGate::kSoftmaxOfChosen:
      break;
  }
  return kernels::RouterGate::kSoftmaxOfChosen;
}

// Reads the groups of experts, of which a row has the best ones. With softmax
// (DeepSeek V2) a group is as good as its best expert.
absl::Status ReadGroups(const Architecture& architecture,
                        const GgufHeader& header, int64_t n_experts,
                        kernels::Routing& routing) {
  const planner::Hyperparameters keys(header, std::string(architecture.name));
  ASSIGN_OR_RETURN(routing.n_groups,
                   keys.Int("expert_group_count", 1, n_experts, 1));
  ASSIGN_OR_RETURN(routing.n_groups_used,
                   keys.Int("expert_group_used_count", 1, routing.n_groups,
                            routing.n_groups));
  routing.groups_by_best = routing.gate == kernels::RouterGate::kSoftmax;
  if (n_experts % routing.n_groups == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "metadata \"", keys.Key("expert_group_count"), "\" is ", routing.n_groups,
      ", which does not divide ", n_experts, " experts"));
}

absl::StatusOr<kernels::Routing> ReadRouting(const Architecture& architecture,
                                             const GgufHeader& header,
                                             const planner::ModelShape& shape) {
  kernels::Routing routing;
  ASSIGN_OR_RETURN(routing.gate, ReadRouterGate(architecture, header, shape));
  ASSIGN_OR_RETURN(const std::optional<bool> normalizes,
                   header.Bool(KeyOf(architecture, "expert_weights_norm")));
  routing.is_normalized = normalizes.value_or(architecture.normalizes_weights);
  RETURN_IF_ERROR(ReadGroups(architecture, header, shape.n_experts, routing));
  const std::string key = KeyOf(architecture, "expert_weights_scale");
  ASSIGN_OR_RETURN(const std::optional<double> scale, header.Float(key));
  // Files write 0 where there is no scale.
  if (scale.value_or(0) == 0) return routing;
  routing.scale = static_cast<float>(*scale);
  if (std::isfinite(routing.scale) && routing.scale > 0) return routing;
  return absl::InvalidArgumentError(
      absl::StrCat(key, " must be a number of at least 0, got ", *scale));
}

// Files write minus infinity for layers that cut no gate.
absl::StatusOr<std::vector<std::optional<float>>> ReadGateCuts(
    const Architecture& architecture, const GgufHeader& header) {
  constexpr double kNoCut = -1e30;
  std::vector<std::optional<float>> cuts;
  if (!architecture.cuts_gates) return cuts;
  const std::string key = KeyOf(architecture, "activation_sparsity_scale");
  ASSIGN_OR_RETURN(const planner::GgufArray* const given, header.Array(key));
  if (given == nullptr) return cuts;
  ASSIGN_OR_RETURN(const auto n_layers,
                   header.Int(KeyOf(architecture, "block_count")));
  if (std::ssize(given->numbers) != n_layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, " must have a number for each of ", n_layers.value_or(0),
        " layers, it has ", given->n, " elements"));
  }
  for (const double deviations : given->numbers) {
    if (deviations <= kNoCut) {
      cuts.emplace_back(std::nullopt);
    } else if (std::abs(deviations) <= kMaxFactor) {
      cuts.emplace_back(static_cast<float>(deviations));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(key, " has the number ", deviations));
    }
  }
  return cuts;
}

// Layers work on stream 0.
absl::Status CheckActiveStream(const Architecture& architecture,
                               const GgufHeader& header) {
  if (!architecture.has_altup) return absl::OkStatus();
  const std::string key = KeyOf(architecture, "altup.active_idx");
  ASSIGN_OR_RETURN(const auto stream, header.Int(key));
  if (stream.value_or(0) == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(key, " ", *stream, " cannot be run by this build (0 can)"));
}

}  // namespace

absl::StatusOr<double> ReadFactor(const GgufHeader& header,
                                  const std::string& key, double least,
                                  double fallback) {
  ASSIGN_OR_RETURN(const std::optional<double> value, header.Float(key));
  const double factor = value.value_or(fallback);
  if (factor >= least && factor <= kMaxFactor) return factor;
  return absl::InvalidArgumentError(absl::StrCat(key, " must be a number from ",
                                                 least, " to ", kMaxFactor,
                                                 ", got ", factor));
}

float QueryGrowth::FactorAt(int64_t position) const {
  const int64_t n_periods = (position + offset) / period;
  return static_cast<float>(1 +
                            scale * std::log1p(static_cast<double>(n_periods)));
}

absl::StatusOr<GraphParameters> ReadParameters(const Architecture& architecture,
                                               const GgufHeader& header,
                                               const GraphInputs& inputs) {
  const planner::ModelShape& shape = *inputs.shape;
  GraphParameters parameters = {};
  RETURN_IF_ERROR(CheckActiveStream(architecture, header));
  RETURN_IF_ERROR(ReadScales(architecture, header, shape, parameters));
  ASSIGN_OR_RETURN(parameters.attention_scale,
                   AttentionScale(architecture, header, shape));
  ASSIGN_OR_RETURN(parameters.score_cap,
                   ReadCap(architecture, header, architecture.score_cap));
  ASSIGN_OR_RETURN(parameters.logit_cap,
                   ReadCap(architecture, header, architecture.logit_cap));
  ASSIGN_OR_RETURN(parameters.query_growth,
                   ReadQueryGrowth(architecture, header));
  ASSIGN_OR_RETURN(const int64_t n_rot, ReadRotated(architecture, header, shape,
                                                    /*has_window=*/false));
  ASSIGN_OR_RETURN(parameters.rope,
                   ReadRope(architecture, header, inputs, n_rot));
  ASSIGN_OR_RETURN(
      const int64_t window_n_rot,
      ReadRotated(architecture, header, shape, /*has_window=*/true));
  ASSIGN_OR_RETURN(parameters.window_rope,
                   ReadWindowRope(architecture, header, inputs, window_n_rot));
  if (architecture.window_rope == planner::WindowRope::kOnly &&
      shape.has_windows) {
    parameters.rope.n_rot = 0;
  }
  parameters.activation = ActivationOf(architecture);
  ASSIGN_OR_RETURN(parameters.gate_cuts, ReadGateCuts(architecture, header));
  if (shape.n_experts > 0) {
    ASSIGN_OR_RETURN(parameters.routing,
                     ReadRouting(architecture, header, shape));
  }
  return parameters;
}

}  // namespace plimsoll::worker
