#include "services/sources/config_values.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/hyperparameters.h"

namespace plimsoll::services {
namespace {

using planner::Architecture;
using planner::HeaderNumbers;
using planner::ModelShape;

// A factor of config.json and the header's key for it, after "A.".
struct ScaleKey {
  absl::string_view from;
  absl::string_view to;
};

constexpr ScaleKey kScales[] = {
    {"embedding_multiplier", "embedding_scale"},
    {"attention_multiplier", "attention.scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
};

absl::Status Contradicts(const Architecture& architecture,
                         absl::string_view name, absl::string_view value) {
  return absl::UnimplementedError(absl::StrCat(
      "config.json: \"", name, "\" is ", value, ", which a file of the ",
      "architecture ", architecture.name, " cannot say"));
}

// Sets the epsilon of norms. A plan's header has placeholders of two kinds.
absl::Status SetEpsilon(const ConfigObject& config,
                        const Architecture& architecture, HeaderNumbers& out) {
  const bool subtracts_means = architecture.norms_subtract_means;
  ASSIGN_OR_RETURN(const double eps,
                   RequiredNumber(config, subtracts_means ? "layer_norm_eps"
                                                          : "rms_norm_eps"));
  for (const char* kind : {"", "rms_"}) {
    out.header().metadata.erase(absl::StrCat(
        architecture.name, ".attention.layer_norm_", kind, "epsilon"));
  }
  out.Float(architecture.EpsilonKey(), eps);
  return absl::OkStatus();
}

// In config.json null is no cap; in a file an absent key is the usual one.
absl::Status AddCap(const ConfigObject& config, const planner::SoftCap& cap,
                    HeaderNumbers& out) {
  if (cap.key.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<double> value,
                   NumberOf(config, cap.key));
  const bool is_null = !value && config.fields().contains(std::string(cap.key));
  if (value || is_null) out.Float(cap.key, value.value_or(0));
  return absl::OkStatus();
}

absl::Status CheckActivation(const ConfigObject& config,
                             const Architecture& architecture) {
  const absl::string_view wanted =
      architecture.activation == planner::GateActivation::kSilu ? "silu"
                                                                : "gelu";
  std::string name = "hidden_activation";
  if (FindField(config, name) == nullptr) name = "hidden_act";
  const std::string value = TextOf(config, name);
  if (value.empty() || absl::StartsWith(value, wanted)) {
    return absl::OkStatus();
  }
  return Contradicts(architecture, name, value.substr(0, 64));
}

// Scores are scaled by the root of this width.
absl::Status CheckScoreScale(const ConfigObject& config,
                             const Architecture& architecture,
                             const planner::Hyperparameters& keys) {
  constexpr absl::string_view kName = "query_pre_attn_scalar";
  ASSIGN_OR_RETURN(const std::optional<double> width, NumberOf(config, kName));
  if (!width) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t n_layers,
                   keys.Int("block_count", 1, ModelShape::kMaxLayers));
  ASSIGN_OR_RETURN(const int64_t model_dim,
                   keys.Int("embedding_length", 1, ModelShape::kMaxDim));
  ASSIGN_OR_RETURN(const int64_t n_heads,
                   keys.Int("attention.head_count", 1, ModelShape::kMaxDim));
  int64_t expected = model_dim / n_heads;
  if (n_layers != architecture.width_scaled_layers) {
    ASSIGN_OR_RETURN(expected, keys.Int("attention.key_length", 1,
                                        ModelShape::kMaxDim, expected));
  }
  if (*width == static_cast<double>(expected)) return absl::OkStatus();
  return Contradicts(architecture, kName, absl::StrCat(*width));
}

// Each layer has 1 if it rotates and 0 if not.
absl::Status CheckUnrotated(const ConfigObject& config,
                            const Architecture& architecture) {
  constexpr absl::string_view kName = "no_rope_layers";
  const ConfigValue* list = FindField(config, kName);
  if (list == nullptr) return absl::OkStatus();
  int64_t il = 0;
  for (const ConfigValue& value : list->list_value().values()) {
    ++il;
    const bool rotates = architecture.unrotated_period == 0 ||
                         il % architecture.unrotated_period != 0;
    if ((value.number_value() != 0) == rotates) continue;
    return Contradicts(architecture, kName,
                       absl::StrCat("another list, from layer ", il - 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddComputedValues(const ConfigObject& config,
                               const Architecture& architecture,
                               HeaderNumbers& out) {
  RETURN_IF_ERROR(SetEpsilon(config, architecture, out));
  RETURN_IF_ERROR(AddCap(config, architecture.score_cap, out));
  RETURN_IF_ERROR(AddCap(config, architecture.logit_cap, out));
  if (architecture.has_scale_keys) {
    for (const ScaleKey& key : kScales) {
      ASSIGN_OR_RETURN(const auto scale, NumberOf(config, key.from));
      if (scale) out.Float(key.to, *scale);
    }
  }
  if (architecture.multiplies_logits) {
    ASSIGN_OR_RETURN(const double scale, RequiredNumber(config, "logit_scale"));
    out.Float("logit_scale", scale);
  }
  RETURN_IF_ERROR(CheckActivation(config, architecture));
  const planner::Hyperparameters keys(out.header(),
                                      std::string(architecture.name));
  RETURN_IF_ERROR(CheckScoreScale(config, architecture, keys));
  RETURN_IF_ERROR(CheckUnrotated(config, architecture));
  // Whether full layers rotate depends on it; null says that all are full.
  if (architecture.window_rope == planner::WindowRope::kOnly &&
      !config.fields().contains("sliding_window")) {
    return BadField("sliding_window", "is missing");
  }
  const ConfigValue* windows = FindField(config, "use_sliding_window");
  if (windows != nullptr && windows->bool_value() &&
      architecture.windows == planner::WindowRule::kNone) {
    return Contradicts(architecture, "use_sliding_window", "true");
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
