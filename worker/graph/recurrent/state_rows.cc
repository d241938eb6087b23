#include "worker/graph/recurrent/state_rows.h"

namespace plimsoll::worker {

StateRows::StateRows(int64_t n_rows) {
  segments_.reserve(static_cast<size_t>(n_rows));
  destinations_.reserve(static_cast<size_t>(n_rows));
}

void StateRows::List(const StepBatch& batch, const KvCache& cache) {
  segments_.clear();
  destinations_.assign(batch.tokens.size(), kernels::kNoState);
  for (const SequenceRows& rows : batch.sequences) {
    const auto newest = static_cast<int32_t>(cache.StateOf(rows.slot));
    segments_.push_back(
        {.first_row = rows.first_row,
         .n_rows = rows.n_rows,
         .source = rows.first_position > 0 ? newest : kernels::kNoState});
    const int64_t last_certain =
        rows.first_row + rows.n_rows - rows.n_draft - 1;
    for (int64_t i = 0; i <= rows.n_draft; ++i) {
      destinations_[static_cast<size_t>(last_certain + i)] =
          static_cast<int32_t>(cache.StateOf(rows.slot, i));
    }
  }
}

kernels::StepStates StateRows::Of(const KvCache::LayerStates& layer,
                                  int64_t offset) const {
  return {.data = layer.first + offset,
          .stride = layer.stride,
          .n_states = layer.n_states,
          .segments = segments_.data(),
          .n_segments = std::ssize(segments_),
          .destinations = destinations_.data()};
}

}  // namespace plimsoll::worker
