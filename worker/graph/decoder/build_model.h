// From a file's architecture to the graph that runs it.
#ifndef PLIMSOLL_WORKER_GRAPH_DECODER_BUILD_MODEL_H_
#define PLIMSOLL_WORKER_GRAPH_DECODER_BUILD_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_header.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// Builds the graph of the file's architecture; its weights may be loaded later.
// Requires CheckRunnable (runnable.h).
// Errors: kInvalidArgument naming a hyperparameter that is missing or makes no
// sense.
absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const planner::GgufHeader& header, const GraphInputs& inputs);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_DECODER_BUILD_MODEL_H_
