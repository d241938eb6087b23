#include "worker/graph/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {
namespace {

using planner::Hyperparameters;
using planner::ModelShape;

constexpr absl::string_view kFactor = "rope.scaling.factor";

absl::StatusOr<double> YarnFactor(const Hyperparameters& keys) {
  return ReadFactor(keys.header(), keys.Key(kFactor), 1, 1);
}

// The file's multiplier of the logarithm of the factor.
absl::StatusOr<double> LogMultiplier(const Hyperparameters& keys) {
  return ReadFactor(keys.header(), keys.Key("rope.scaling.yarn_log_multiplier"),
                    0, 0);
}

// By how much YaRN's magnitude depends on the factor: 1 + 0.1 ln(factor), over
// the same with the file's multiplier of the logarithm.
absl::StatusOr<double> YarnMagnitude(const Hyperparameters& keys,
                                     double factor) {
  const auto grown = [&](double multiplier) {
    return 1 + 0.1 * multiplier * std::log(factor);
  };
  ASSIGN_OR_RETURN(const double multiplier, LogMultiplier(keys));
  return grown(1) / grown(multiplier);
}

// YaRN: pairs that turn often in the original context keep their angles, those
// that turn less than about once are scaled.
absl::Status ReadYarn(const Hyperparameters& keys, RopeParameters& rope) {
  ASSIGN_OR_RETURN(const double factor, YarnFactor(keys));
  ASSIGN_OR_RETURN(const int64_t n_ctx, OriginalContext(keys));
  ASSIGN_OR_RETURN(const double fast,
                   keys.PositiveFloat("rope.scaling.yarn_beta_fast", 32));
  ASSIGN_OR_RETURN(const double slow,
                   keys.PositiveFloat("rope.scaling.yarn_beta_slow", 1));
  ASSIGN_OR_RETURN(const double extrapolated,
                   keys.PositiveFloat("rope.scaling.yarn_ext_factor", 1));
  if (extrapolated != 1) {
    return absl::UnimplementedError(
        absl::StrCat("metadata \"", keys.Key("rope.scaling.yarn_ext_factor"),
                     "\" is ", extrapolated, ": this build can run 1 alone"));
  }
  if (rope.base <= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", keys.Key("rope.freq_base"), "\" is ",
                     rope.base, ", not above 1 as YaRN needs it"));
  }
  // The pair that turns that many times in the original context.
  const auto pair_of = [&](double turns) {
    const double positions = static_cast<double>(n_ctx) / turns;
    return static_cast<double>(rope.n_rot) *
           std::log(positions / (2 * std::numbers::pi)) /
           (2 * std::log(rope.base));
  };
  const auto last = static_cast<double>(rope.n_rot - 1);
  rope.ramp.begin = std::max(0.0, std::floor(pair_of(fast)));
  rope.ramp.end =
      std::max(rope.ramp.begin, std::min(last, std::ceil(pair_of(slow))));
  rope.scale = 1 / factor;
  ASSIGN_OR_RETURN(const double magnitude, YarnMagnitude(keys, factor));
  rope.magnitude = static_cast<float>(magnitude);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRopeScaling(const planner::Architecture& architecture,
                             const planner::GgufHeader& header,
                             RopeParameters& rope) {
  const Hyperparameters keys(header, std::string(architecture.name));
  const std::string type_key = keys.Key("rope.scaling.type");
  ASSIGN_OR_RETURN(const auto type, header.String(type_key));
  const std::string kind = type.value_or("linear");
  if (kind == "linear") {
    ASSIGN_OR_RETURN(const double factor, keys.PositiveFloat(kFactor, 1.0));
    rope.scale = 1.0 / factor;
  } else if (kind == "yarn") {
    RETURN_IF_ERROR(ReadYarn(keys, rope));
    if (architecture.yarn_scales_scores) rope.magnitude = 1;
  } else if (kind != "none" && kind != "longrope") {
    return absl::UnimplementedError(
        absl::StrCat(type_key, " \"", kind,
                     "\" cannot be run by this build (none, linear, longrope "
                     "and yarn can)"));
  }
  ASSIGN_OR_RETURN(const double magnitude,
                   ReadFactor(header, keys.Key("rope.scaling.attn_factor"),
                              1 / kMaxFactor, 1));
  rope.magnitude *= static_cast<float>(magnitude);
  return absl::OkStatus();
}

absl::StatusOr<double> ReadScoreFactor(
    const planner::Architecture& architecture,
    const planner::GgufHeader& header) {
  if (!architecture.yarn_scales_scores) return 1.0;
  const Hyperparameters keys(header, std::string(architecture.name));
  ASSIGN_OR_RETURN(const auto type,
                   header.String(keys.Key("rope.scaling.type")));
  if (type.value_or("") != "yarn") return 1.0;
  ASSIGN_OR_RETURN(const double factor, YarnFactor(keys));
  ASSIGN_OR_RETURN(const double multiplier, LogMultiplier(keys));
  const double magnitude = 1 + multiplier * std::log(factor);
  return magnitude * magnitude;
}

absl::StatusOr<int64_t> OriginalContext(const Hyperparameters& keys) {
  ASSIGN_OR_RETURN(const int64_t n_ctx_train,
                   keys.Int("context_length", 1, ModelShape::kMaxContext));
  return keys.Int("rope.scaling.original_context_length", 1,
                  ModelShape::kMaxContext, n_ctx_train);
}

absl::StatusOr<const float*> FindFreqFactors(
    const planner::Architecture& architecture,
    const planner::GgufHeader& header, const GraphInputs& inputs) {
  constexpr absl::string_view kSets[] = {"rope_factors_short.weight",
                                         "rope_factors_long.weight"};
  const bool has_sets =
      FindTensor(inputs, kSets[0]) || FindTensor(inputs, kSets[1]);
  if (!has_sets) return FindVector(inputs, "rope_freqs.weight");
  const Hyperparameters keys(header, std::string(architecture.name));
  ASSIGN_OR_RETURN(const int64_t original, OriginalContext(keys));
  const bool is_long = inputs.plan->n_ctx > original;
  const float* const factors = FindVector(inputs, kSets[is_long ? 1 : 0]);
  if (factors != nullptr) return factors;
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor \"", kSets[is_long ? 1 : 0], "\" is missing: a context of ",
      inputs.plan->n_ctx, " needs it, as the original one has ", original));
}

}  // namespace plimsoll::worker
