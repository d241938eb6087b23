// How a step's attention is cut into tasks for the threads.
#ifndef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_TASKS_H_
#define PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_TASKS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"

namespace plimsoll::kernels::cpu {

// A task has at most kMaxQueries queries (rows x heads), which share the keys
// and values that are converted to float32. Tasks of wide heads have fewer
// queries, because their sums would not fit in the nearest cache.
inline constexpr int64_t kMaxQueries = 32;
inline constexpr int64_t kMaxWideQueries = 16;
inline constexpr int64_t kMaxNarrowDim = 128;
inline constexpr int64_t kSumFloats = kMaxWideQueries * kMaxHeadDim;
// A task of one row may have this many queries, of several KV heads.
inline constexpr int64_t kMaxRowQueries = 64;
constexpr int64_t MaxQueries(int64_t head_dim) {
  return head_dim <= kMaxNarrowDim ? kMaxQueries : kMaxWideQueries;
}
static_assert(kMaxQueries * kMaxNarrowDim <= kSumFloats);

// Keys or values that are converted to float32 at a time. They fit in the
// nearest cache beside queries and sums.
inline constexpr int64_t kTileFloats = 4096;

// A span is a run of the blocks that one row sees. It is reduced by itself, and
// spans are then joined in their order. Where spans begin depends only on the
// row's position and on what it sees, so neither chunks nor threads change the
// result.
inline constexpr int64_t kMinSpanBlocks = 4;
inline constexpr int64_t kMaxSpans = 16;  // one more where a ring is cut

// Floats for the results of spans: so many for each thread, but at least those
// of one decoding row of 64 heads of 128 elements.
inline constexpr int64_t kThreadPartialFloats = 32'768;
inline constexpr int64_t kRowPartialFloats = (kMaxSpans + 1) * 64 * (2 + 128);
constexpr int64_t PartialFloats(int n_threads) {
  return std::max(kRowPartialFloats, n_threads * kThreadPartialFloats);
}

// The blocks that a row sees: page-table indices, or positions /
// kAttentionBlock of a ring. Spans begin at multiples of `span_blocks`.
struct RowBlocks {
  int64_t begin;
  int64_t end;
  int64_t span_blocks;  // a power of two

  int64_t n_spans() const {
    return (end - 1) / span_blocks - begin / span_blocks + 1;
  }
};
// The blocks that the row at `position` sees. A row sees itself.
RowBlocks RowBlocksAt(const AttentionArgs& args,
                      const AttentionSegment& segment, int64_t position);

// Rows [first_row, first_row + n_rows) of a segment and heads [first_head,
// first_head + n_heads), which read KV heads [kv_head, kv_head + n_kv_heads).
struct AttentionTask {
  const AttentionSegment* segment;
  int64_t first_row;  // in the segment
  int64_t n_rows;
  int64_t first_head;
  int64_t n_heads;
  int64_t kv_head;
  int64_t n_kv_heads;  // 1 if the task has several rows
  int64_t span;        // number among n_spans; only if the task has one row
  int64_t n_spans;     // spans of the row; 1 = the task does all of it
};

// One thread's scratch.
struct AttentionScratch {
  float* tile;    // [kTileFloats]: keys, then values
  float* sums;    // [queries, value_dim], of a span
  float* totals;  // [queries, value_dim], of the spans before it
  float* scores;  // [kMaxQueries, kAttentionBlock]
};

// How a step's attention is cut: segments into tiles of rows, groups of heads
// into tiles too, and the keys of a row into spans.
struct AttentionSplit {
  int64_t tile_rows;
  int64_t tile_heads;
  int64_t n_head_tiles;  // tiles of one head group
  int64_t row_kv_heads;  // KV heads of a task of a decoding row
  bool has_spans;
  int64_t n_tasks;
};

// Chooses whole head groups where it can, because these read each key once,
// and all KV heads of a decoding row, because memory is read fastest in its
// order. If some threads would then have no work, it cuts the keys of a
// decoding row into spans, then takes fewer KV heads a task, or makes tiles of
// fewer heads and more rows.
AttentionSplit SplitAttention(const AttentionArgs& args, int n_threads);

// Returns task `index`, index < split.n_tasks.
AttentionTask AttentionTaskAt(const AttentionArgs& args,
                              const AttentionSplit& split, int64_t index);

// Floats of a task's span: a maximum, a total and sums for each head.
inline int64_t SpanFloats(const AttentionArgs& args,
                          const AttentionSplit& split) {
  return split.row_kv_heads * split.tile_heads * (2 + args.ValueDim());
}

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_TASKS_H_
