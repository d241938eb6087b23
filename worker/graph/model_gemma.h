// The gemma3 family: Gemma 3 text models and what is built on them.
#ifndef PLIMSOLL_WORKER_GRAPH_MODEL_GEMMA_H_
#define PLIMSOLL_WORKER_GRAPH_MODEL_GEMMA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// Errors: kInvalidArgument naming a hyperparameter that makes no sense;
// kUnimplemented naming a feature that this build cannot run.
absl::StatusOr<std::unique_ptr<Model>> BuildGemma3(
    const planner::GgufHeader& header, const ModelParts& parts);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MODEL_GEMMA_H_
