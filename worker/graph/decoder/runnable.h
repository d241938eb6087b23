// Whether this build can run a model: derived from its architecture's
// specification and from what the classes of the graph can do.
#ifndef PLIMSOLL_WORKER_GRAPH_DECODER_RUNNABLE_H_
#define PLIMSOLL_WORKER_GRAPH_DECODER_RUNNABLE_H_

#include "absl/status/status.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::worker {

// Checks whether this build can run models of this shape. Callers ask this
// before anything else about a load: no other error helps a user whose model is
// refused here.
// Errors: kUnimplemented naming the architecture and what of it is missing.
absl::Status CheckArchitecture(const planner::ModelShape& shape);

// Checks whether this build can run the model under the plan.
// Errors: kUnimplemented naming what is missing, or the element type that it
// cannot run; kInvalidArgument for a plan made for another engine.
absl::Status CheckRunnable(const planner::ModelShape& shape,
                           const planner::MemoryPlan& plan);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_DECODER_RUNNABLE_H_
