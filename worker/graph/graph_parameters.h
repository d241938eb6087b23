// The numbers of a forward pass: those of an architecture's specification, with
// the values that a file gives.
#ifndef PLIMSOLL_WORKER_GRAPH_GRAPH_PARAMETERS_H_
#define PLIMSOLL_WORKER_GRAPH_GRAPH_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/experts.h"
#include "planner/gguf/gguf_header.h"
#include "planner/model/architecture.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// How a layer rotates queries and keys.
struct RopeParameters {
  double base;
  double scale;                         // 1 / scaling factor
  const float* freq_factors = nullptr;  // device, [n_rot / 2] or nullptr
  int64_t n_rot;                        // 0 if no layer rotates in this way
  kernels::RopeStyle style;
  kernels::RopeRamp ramp = {};  // YaRN's ramp
  float magnitude = 1;          // a factor of rotated elements
};

// Queries at a position are multiplied by 1 + scale * ln(1 + (position +
// offset) / period), with the quotient rounded down.
struct QueryGrowth {
  double scale = 0;  // 0: queries do not grow
  int64_t period = 1;
  int64_t offset = 0;

  float FactorAt(int64_t position) const;
};

struct GraphParameters {
  float rms_eps;
  // The residual stream is kept divided by the factor of what layers add to it
  // (A.residual_scale). A norm of it has the same result with this eps.
  float stream_eps;
  bool norms_subtract_means;    // norms of the residual stream
  float embedding_scale;        // into the stream
  float output_norm_scale = 1;  // multiplies the output norm's result
  float attention_scale;
  float score_cap;  // cap of attention's scores; 0: none
  float logit_cap;  // 0: none
  QueryGrowth query_growth = {};
  RopeParameters rope;         // full-attention layers
  RopeParameters window_rope;  // sliding-window layers
  kernels::Activation activation;
  kernels::Routing routing;  // to experts
  // How many standard deviations above their mean gates are cut, by the model's
  // layers; empty if no layer cuts them.
  std::vector<std::optional<float>> gate_cuts = {};

  std::optional<float> GateCut(int64_t layer) const {
    if (gate_cuts.empty()) return std::nullopt;
    return gate_cuts[static_cast<size_t>(layer)];
  }
};

// Reads the parameters from a file's header. Requires CheckArchitecture.
// Errors: kInvalidArgument naming a hyperparameter that is missing or makes no
// sense; kUnimplemented naming a rope scaling, or a residual stream that layers
// work on, that this build cannot run.
absl::StatusOr<GraphParameters> ReadParameters(
    const planner::Architecture& architecture,
    const planner::GgufHeader& header, const GraphInputs& inputs);

// Factors of a model's file are at most this, so that no float that depends on
// them overflows.
inline constexpr double kMaxFactor = 1e6;

// The number at `key`, from `least` to kMaxFactor, or `fallback` if the file
// does not have it.
// Errors: kInvalidArgument naming the key.
absl::StatusOr<double> ReadFactor(const planner::GgufHeader& header,
                                  const std::string& key, double least,
                                  double fallback);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_GRAPH_PARAMETERS_H_
