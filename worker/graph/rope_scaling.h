// How a rotation's angles are scaled for contexts longer than those that a
// model was first trained with.
#ifndef PLIMSOLL_WORKER_GRAPH_ROPE_SCALING_H_
#define PLIMSOLL_WORKER_GRAPH_ROPE_SCALING_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/architecture.h"
#include "planner/model/hyperparameters.h"
#include "worker/graph/graph_parameters.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// Sets the scale, the ramp and the magnitude of a rotation that has all else,
// by the file's kind of scaling: none, linear or YaRN.
// Errors: kInvalidArgument naming a key that makes no sense; kUnimplemented
// naming a kind of scaling that this build cannot run.
// Source: `A.rope.scaling.*`; YaRN is arXiv 2309.00071.
absl::Status ReadRopeScaling(const planner::Architecture& architecture,
                             const planner::GgufHeader& header,
                             RopeParameters& rope);

// The factor of scores that YaRN gives, which is 1 unless the architecture has
// yarn_scales_scores and the file YaRN.
// Errors: kInvalidArgument naming a key that makes no sense.
absl::StatusOr<double> ReadScoreFactor(
    const planner::Architecture& architecture,
    const planner::GgufHeader& header);

// The context of the first training: A.rope.scaling.original_context_length, or
// A.context_length without it.
absl::StatusOr<int64_t> OriginalContext(const planner::Hyperparameters& keys);

// Returns the file's divisors of frequencies, [n_rot / 2] on the device, or
// null. A file with two sets has one for contexts up to the original length and
// one for contexts beyond it; a load has the same one at every position, by the
// context of its plan.
// Errors: kInvalidArgument if only the other set is there.
absl::StatusOr<const float*> FindFreqFactors(
    const planner::Architecture& architecture,
    const planner::GgufHeader& header, const GraphInputs& inputs);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_ROPE_SCALING_H_
