#include "worker/graph/attention/attention_rows.h"

#include <algorithm>

namespace plimsoll::worker {
namespace {

// The number of a sequence's rows that are sampled: its last ones.
int64_t CountSampled(const StepBatch& batch, const SequenceRows& rows) {
  const auto from = [&](int64_t row) {
    return std::ranges::lower_bound(batch.sampled_rows, row);
  };
  return from(rows.first_row + rows.n_rows) - from(rows.first_row);
}

// Adds a segment in chunks, so that the windows of a chunk's rows begin at the
// same position. Windows are chunks of so many tokens.
void AddChunks(kernels::AttentionSegment segment, int64_t chunk,
               std::vector<kernels::AttentionSegment>& segments) {
  const int64_t end = segment.first_position + segment.n_rows;
  while (segment.first_position < end) {
    const int64_t first = segment.first_position;
    const int64_t begin = first - first % chunk;
    kernels::AttentionSegment in_chunk = segment;
    in_chunk.n_rows = std::min(end, begin + chunk) - first;
    in_chunk.live_begin = std::max(in_chunk.live_begin, begin);
    segments.push_back(in_chunk);
    segment.first_row += in_chunk.n_rows;
    segment.first_position += in_chunk.n_rows;
  }
}

}  // namespace

AttentionScratch::AttentionScratch(int64_t n_rows) {
  const auto rows = static_cast<size_t>(n_rows);
  // Keys and values go to two places each.
  offsets.reserve(4 * rows);
  more_offsets.reserve(rows);
  segments.reserve(rows);
  query_factors.reserve(rows);
}

void AttentionScratch::ListSegments(const StepBatch& batch,
                                    const KvCache& cache, bool is_cut,
                                    const std::optional<LayerRings>& rings) {
  segments.clear();
  for (const SequenceRows& rows : batch.sequences) {
    const int64_t n_read = is_cut ? CountSampled(batch, rows) : rows.n_rows;
    if (n_read == 0) continue;
    const int64_t n_skipped = rows.n_rows - n_read;
    kernels::AttentionSegment segment = {
        .first_row = rows.first_row + n_skipped,
        .n_rows = n_read,
        .first_position = rows.first_position + n_skipped,
        .pages = cache.Pages(rows.slot),
        .ring = {},
        .live_begin = cache.LiveBegin(rows.slot),
        .is_prompt = rows.is_prompt};
    if (rings) segment.ring = cache.Ring(rings->layer, rows.slot);
    if (rings && rings->chunk > 0) {
      AddChunks(segment, rings->chunk, segments);
    } else {
      segments.push_back(segment);
    }
  }
}

bool KeepsAllRows(const StepContext& context, const StepBatch& batch,
                  int64_t layer) {
  const bool is_last = context.HasLogits() && layer + 1 == context.EndLayer();
  return !is_last || batch.keeps_all_rows ||
         static_cast<int64_t>(batch.sampled_rows.size()) == context.n_rows();
}

}  // namespace plimsoll::worker
