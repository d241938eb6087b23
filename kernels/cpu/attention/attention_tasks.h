// How a step's attention is cut into tasks for the threads.
#ifndef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_TASKS_H_
#define PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_TASKS_H_

#include <cstdint>

#include "kernels/backend.h"

namespace plimsoll::kernels::cpu {

// Rows x heads of a task, which share what is brought to float32: at most
// kMaxQueries, and fewer of wide heads, whose sums leave the nearest cache.
inline constexpr int64_t kMaxQueries = 32;
inline constexpr int64_t kMaxWideQueries = 16;
inline constexpr int64_t kMaxNarrowDim = 128;
inline constexpr int64_t kSumFloats = kMaxWideQueries * kMaxHeadDim;
constexpr int64_t MaxQueries(int64_t head_dim) {
  return head_dim <= kMaxNarrowDim ? kMaxQueries : kMaxWideQueries;
}
static_assert(kMaxQueries * kMaxNarrowDim <= kSumFloats);

// Keys or values in float32 at a time: what fits in the nearest cache beside
// queries and sums.
inline constexpr int64_t kTileFloats = 4096;

// Of the blocks that one row sees, a span is a part that is reduced by itself;
// spans are then put together in their order. Where they begin depends only on
// the row's position and what it sees, so that neither chunks nor threads
// change the result.
inline constexpr int64_t kMinSpanBlocks = 4;
inline constexpr int64_t kMaxSpans = 16;  // one more where a ring's are cut

// Floats of each thread for the results of spans.
inline constexpr int64_t kPartialFloats = 32'768;

// The blocks that a row sees: numbers in the page table, or positions /
// kAttentionBlock of a ring. Spans begin at multiples of `span_blocks`.
struct RowBlocks {
  int64_t begin;
  int64_t end;
  int64_t span_blocks;  // a power of two

  int64_t n_spans() const {
    return (end - 1) / span_blocks - begin / span_blocks + 1;
  }
};
// Of the row at `position`, which sees itself.
RowBlocks RowBlocksAt(const AttentionArgs& args,
                      const AttentionSegment& segment, int64_t position);

// Rows [first_row, first_row + n_rows) of a segment and heads [first_head,
// first_head + n_heads), all of which read `kv_head`.
struct AttentionTask {
  const AttentionSegment* segment;
  int64_t first_row;  // in the segment
  int64_t n_rows;
  int64_t first_head;
  int64_t n_heads;
  int64_t kv_head;
  int64_t span;     // of n_spans; only of a task with one row
  int64_t n_spans;  // that the row is cut into; 1 = the task does all of it
};

// One thread's scratch.
struct AttentionScratch {
  float* tile;    // [kTileFloats]: keys, then values
  float* sums;    // [MaxQueries, head_dim], of a span
  float* totals;  // [MaxQueries, head_dim], of the spans before it
  float* scores;  // [kMaxQueries, kAttentionBlock]
};

// Segments are cut into tiles of rows, groups of heads into parts, and what a
// row sees into spans.
struct AttentionSplit {
  int64_t tile_rows;
  int64_t part_heads;
  int64_t n_parts;  // of one head group
  bool has_spans;
  int64_t n_tasks;
};

// Whole groups read each key once; where that leaves threads without work, what
// the row of a decode sees is cut, or tiles get fewer heads of more rows.
AttentionSplit SplitAttention(const AttentionArgs& args, int n_threads);

// Task `index` < split.n_tasks.
AttentionTask AttentionTaskAt(const AttentionArgs& args,
                              const AttentionSplit& split, int64_t index);

// Floats that a span's result takes: for each head its maximum, its total and
// its sums.
inline int64_t PartialFloats(const AttentionArgs& args,
                             const AttentionSplit& split) {
  return split.part_heads * (2 + args.head_dim);
}

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_TASKS_H_
