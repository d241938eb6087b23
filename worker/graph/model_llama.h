// The llama family: SmolLM2, Llama 2 and 3, Mistral, TinyLlama.
#ifndef PLIMSOLL_WORKER_GRAPH_MODEL_LLAMA_H_
#define PLIMSOLL_WORKER_GRAPH_MODEL_LLAMA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// Errors: kInvalidArgument naming a hyperparameter that makes no sense;
// kUnimplemented naming a rope scaling that this build cannot run.
absl::StatusOr<std::unique_ptr<Model>> BuildLlama(
    const planner::GgufHeader& header, const ModelParts& parts);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MODEL_LLAMA_H_
