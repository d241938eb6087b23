// How a step's attention is cut into tasks for the threads.
#ifndef PLIMSOLL_KERNELS_CPU_ATTENTION_TASKS_H_
#define PLIMSOLL_KERNELS_CPU_ATTENTION_TASKS_H_

#include <cstdint>

#include "kernels/backend.h"

namespace plimsoll::kernels::cpu {

inline constexpr int64_t kMaxQueries = 16;  // rows x heads of a task
// Keys or values in float32 at a time: what fits in the nearest cache beside
// queries and sums.
inline constexpr int64_t kTileFloats = 4096;

// Rows [first_row, first_row + n_rows) of a segment and heads [first_head,
// first_head + n_heads), all of which read `kv_head`.
struct AttentionTask {
  const AttentionSegment* segment;
  int64_t first_row;  // in the segment
  int64_t n_rows;
  int64_t first_head;
  int64_t n_heads;
  int64_t kv_head;
};

// One thread's scratch.
struct AttentionScratch {
  float* tile;    // [kTileFloats]: keys, then values
  float* sums;    // [kMaxQueries, head_dim]
  float* scores;  // [kMaxQueries, kAttentionBlock]
};

// Segments are cut into tiles of rows, groups of heads into parts.
struct AttentionSplit {
  int64_t tile_rows;
  int64_t part_heads;
  int64_t n_parts;  // of one head group
  int64_t n_tasks;
};

// Whole groups read each key once; where that leaves threads without work (a
// decode step on one KV head), groups are cut.
AttentionSplit SplitAttention(const AttentionArgs& args, int n_threads);

// Task `index` < split.n_tasks.
AttentionTask AttentionTaskAt(const AttentionArgs& args,
                              const AttentionSplit& split, int64_t index);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_ATTENTION_TASKS_H_
