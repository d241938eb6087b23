// The parts of a layer: a mixer, which reads other tokens, an FFN, which does
// not, and what some models have around them. Each kind is a class of its own.
#ifndef PLIMSOLL_WORKER_GRAPH_SUBLAYER_H_
#define PLIMSOLL_WORKER_GRAPH_SUBLAYER_H_

#include "absl/status/status.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// One part of one layer, with its weights. It is used from its model's thread.
class Sublayer {
 public:
  virtual ~Sublayer() = default;

  // Computes the sublayer for the step's rows of the residual stream and adds
  // the result to it. A mixer may drop rows that nobody needs; what follows it
  // does not run if no row is left.
  // Errors: those of the backend.
  virtual absl::Status Add(const StepBatch& batch) = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_SUBLAYER_H_
