// The two halves of a layer: a mixer, which looks at other tokens, and an FFN,
// which does not. Each kind is a class of its own.
#ifndef PLIMSOLL_WORKER_GRAPH_SUBLAYER_H_
#define PLIMSOLL_WORKER_GRAPH_SUBLAYER_H_

#include "absl/status/status.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// One half of one layer, with its weights. It is used from its model's thread.
class Sublayer {
 public:
  virtual ~Sublayer() = default;

  // Adds to the residual stream of the step's rows what the sublayer makes of
  // it. A mixer may leave out rows that nobody asks for; an FFN is not run
  // where none is left.
  // Errors: those of the backend.
  virtual absl::Status Add(const StepBatch& batch) = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_SUBLAYER_H_
