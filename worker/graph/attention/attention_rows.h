// What mixers of attention share: lists of a step's rows, and which of them go
// on.
#ifndef PLIMSOLL_WORKER_GRAPH_ATTENTION_ATTENTION_ROWS_H_
#define PLIMSOLL_WORKER_GRAPH_ATTENTION_ATTENTION_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/tensor_view.h"
#include "worker/cache/kv_cache.h"
#include "worker/graph/model.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {

// The rings of a layer.
struct LayerRings {
  int64_t layer;
  int64_t chunk = 0;  // tokens of a chunk, if windows are chunks
};

// Lists of a step's rows. The layers of a graph share them because they run one
// after the other. They are kept to avoid allocation.
struct AttentionScratch {
  explicit AttentionScratch(int64_t n_rows);

  // Sets `segments` to those of the step or, if `is_cut`, to those of its
  // sampled rows. They have `rings` if the layer that attends has them.
  void ListSegments(const StepBatch& batch, const KvCache& cache, bool is_cut,
                    const std::optional<LayerRings>& rings);

  std::vector<int64_t> offsets;
  std::vector<int64_t> more_offsets;
  std::vector<kernels::AttentionSegment> segments;
  // The factor of each row's queries; empty if they have none. The graph sets
  // it at the beginning of a step.
  std::vector<float> query_factors;
};

// True if the step goes on with every row after the attention of `layer`. Only
// the last layer drops rows, namely those whose logits are not needed.
bool KeepsAllRows(const StepContext& context, const StepBatch& batch,
                  int64_t layer);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_ATTENTION_ATTENTION_ROWS_H_
