// Which states the rows of a step begin with and leave behind.
#ifndef PLIMSOLL_WORKER_GRAPH_RECURRENT_STATE_ROWS_H_
#define PLIMSOLL_WORKER_GRAPH_RECURRENT_STATE_ROWS_H_

#include <cstdint>
#include <vector>

#include "kernels/recurrent.h"
#include "worker/cache/kv_cache.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// Lists of a step's rows, which are the same for all recurrent layers. They are
// kept to avoid allocation.
class StateRows {
 public:
  explicit StateRows(int64_t n_rows);

  // Sets the lists to those of the step. A sequence's state is changed in
  // place, but the state after each of its drafts is kept apart.
  void List(const StepBatch& batch, const KvCache& cache);

  // The listed states of a layer, whose part for an operation begins `offset`
  // floats behind the beginning of each state.
  kernels::StepStates Of(const KvCache::LayerStates& layer,
                         int64_t offset) const;

 private:
  std::vector<kernels::StateSegment> segments_;
  std::vector<int32_t> destinations_;  // by row
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_RECURRENT_STATE_ROWS_H_
