// Tasks are numbered segment by segment, tile by tile, KV head by KV head.
#include "kernels/cpu/attention_tasks.h"

#include <algorithm>

namespace plimsoll::kernels::cpu {
namespace {

int64_t Tiles(const AttentionSegment& segment, const AttentionSplit& split) {
  return (segment.n_rows + split.tile_rows - 1) / split.tile_rows;
}

}  // namespace

AttentionSplit SplitAttention(const AttentionArgs& args, int n_threads) {
  const int64_t group = args.n_heads / args.n_kv_heads;
  AttentionSplit split;
  split.part_heads = std::min(group, kMaxQueries);
  split.tile_rows = kMaxQueries / split.part_heads;
  int64_t n_groups = 0;
  for (const AttentionSegment& segment : args.segments) {
    n_groups += Tiles(segment, split) * args.n_kv_heads;
  }
  if (n_groups > 0 && n_groups < n_threads) {
    const int64_t parts = (n_threads + n_groups - 1) / n_groups;
    split.part_heads = std::min(split.part_heads, (group + parts - 1) / parts);
  }
  split.n_parts = (group + split.part_heads - 1) / split.part_heads;
  split.n_tasks = n_groups * split.n_parts;
  return split;
}

AttentionTask AttentionTaskAt(const AttentionArgs& args,
                              const AttentionSplit& split, int64_t index) {
  const int64_t per_tile = args.n_kv_heads * split.n_parts;
  size_t s = 0;
  while (index >= Tiles(args.segments[s], split) * per_tile) {
    index -= Tiles(args.segments[s], split) * per_tile;
    ++s;
  }
  const int64_t group = args.n_heads / args.n_kv_heads;
  const int64_t part = index % split.n_parts;
  AttentionTask task;
  task.segment = &args.segments[s];
  task.kv_head = index / split.n_parts % args.n_kv_heads;
  task.first_row = index / per_tile * split.tile_rows;
  task.n_rows =
      std::min(split.tile_rows, task.segment->n_rows - task.first_row);
  task.first_head = task.kv_head * group + part * split.part_heads;
  task.n_heads = std::min(split.part_heads, group - part * split.part_heads);
  return task;
}

}  // namespace plimsoll::kernels::cpu
