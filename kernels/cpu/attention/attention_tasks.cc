// Tasks are numbered segment by segment, tile by tile, KV head by KV head, tile
// of heads by tile of heads, span by span.
#include "kernels/cpu/attention/attention_tasks.h"

#include <algorithm>
#include <array>
#include <bit>

namespace plimsoll::kernels::cpu {
namespace {

// Work is cut finer only while threads have fewer groups than this each.
constexpr int64_t kGroupsPerThread = 4;
// Shares are compared for up to this many threads; with more it would take
// long.
constexpr int kMaxBalanced = 8;
// The cost of converting a key and a value to float32, in queries that use it.
constexpr int64_t kTileQueries = 2;

int64_t Tiles(const AttentionSegment& segment, const AttentionSplit& split) {
  return (segment.n_rows + split.tile_rows - 1) / split.tile_rows;
}

int64_t SpanBlocks(int64_t n_blocks) {
  const auto least =
      static_cast<uint64_t>((n_blocks + kMaxSpans - 1) / kMaxSpans);
  return std::max(kMinSpanBlocks, static_cast<int64_t>(std::bit_ceil(least)));
}

int64_t SpansOf(const AttentionArgs& args, const AttentionSegment& segment,
                const AttentionSplit& split) {
  if (!split.has_spans || segment.n_rows != 1) return 1;
  return RowBlocksAt(args, segment, segment.first_position).n_spans();
}

int64_t KvHeadsOfTask(const AttentionSegment& segment,
                      const AttentionSplit& split) {
  return segment.n_rows == 1 ? split.row_kv_heads : 1;
}

// Tasks of one tile: KV heads by tiles of heads by spans.
int64_t TileTasks(const AttentionArgs& args, const AttentionSegment& segment,
                  const AttentionSplit& split) {
  const int64_t width = KvHeadsOfTask(segment, split);
  return (args.n_kv_heads + width - 1) / width * split.n_head_tiles *
         SpansOf(args, segment, split);
}

int64_t Tasks(const AttentionArgs& args, const AttentionSplit& split) {
  int64_t n = 0;
  for (const AttentionSegment& segment : args.segments) {
    n += Tiles(segment, split) * TileTasks(args, segment, split);
  }
  return n;
}

bool SpansFit(const AttentionArgs& args, const AttentionSplit& split,
              int n_threads) {
  return Tasks(args, split) * SpanFloats(args, split) <=
         PartialFloats(n_threads);
}

// KV heads of one task of a decoding row, at most.
int64_t MostRowKvHeads(const AttentionArgs& args, const AttentionSplit& split) {
  if (split.n_head_tiles > 1) return 1;
  const int64_t most_queries =
      std::min(kMaxRowQueries, kSumFloats / args.ValueDim());
  return std::clamp<int64_t>(most_queries / split.tile_heads, 1,
                             args.n_kv_heads);
}

void SetTileHeads(const AttentionArgs& args, int64_t tile_heads,
                  AttentionSplit& split) {
  const int64_t group = args.n_heads / args.n_kv_heads;
  split.tile_heads = tile_heads;
  split.tile_rows = MaxQueries(args.head_dim) / tile_heads;
  split.n_head_tiles = (group + tile_heads - 1) / tile_heads;
  split.row_kv_heads = 1;
}

// The work of the busiest of `n_threads` threads, in queries times keys, if
// each thread takes the next task when it has none.
int64_t BusiestThread(const AttentionArgs& args, const AttentionSplit& split,
                      int n_threads) {
  std::array<int64_t, kMaxBalanced> busy = {};
  const auto end = busy.begin() + n_threads;
  for (int64_t i = 0; i < Tasks(args, split); ++i) {
    const AttentionTask task = AttentionTaskAt(args, split, i);
    const AttentionSegment& segment = *task.segment;
    int64_t n_keys = segment.first_position + segment.n_rows;
    if (args.is_ring) n_keys = std::min(n_keys, segment.ring.window);
    *std::min_element(busy.begin(), end) +=
        (task.n_rows * task.n_heads + kTileQueries) * n_keys;
  }
  return *std::max_element(busy.begin(), end);
}

// Cuts tiles to fewer heads of more rows where threads share that better.
void Balance(const AttentionArgs& args, int n_threads, AttentionSplit& split) {
  AttentionSplit best = split;
  int64_t best_busy = BusiestThread(args, split, n_threads);
  while (split.tile_heads > 1 &&
         Tasks(args, split) < kGroupsPerThread * n_threads) {
    SetTileHeads(args, (split.tile_heads + 1) / 2, split);
    const int64_t busy = BusiestThread(args, split, n_threads);
    if (busy >= best_busy) continue;
    best = split;
    best_busy = busy;
  }
  split = best;
}

// Cuts head groups, so that threads share them better.
void CutHeads(const AttentionArgs& args, int n_threads, AttentionSplit& split) {
  if (n_threads <= kMaxBalanced) return Balance(args, n_threads, split);
  const int64_t n_groups = Tasks(args, split) / split.n_head_tiles;
  if (n_groups == 0 || n_groups >= n_threads) return;
  const int64_t group = args.n_heads / args.n_kv_heads;
  const int64_t n_head_tiles = (n_threads + n_groups - 1) / n_groups;
  SetTileHeads(
      args,
      std::min(split.tile_heads, (group + n_head_tiles - 1) / n_head_tiles),
      split);
}

}  // namespace

RowBlocks RowBlocksAt(const AttentionArgs& args,
                      const AttentionSegment& segment, int64_t position) {
  if (!args.is_ring) {
    size_t n = segment.pages.size();
    while (n > 1 && segment.pages[n - 1].first_position > position) --n;
    const auto end = static_cast<int64_t>(n);
    return {.begin = 0, .end = end, .span_blocks = SpanBlocks(end)};
  }
  const int64_t window = segment.ring.window;
  const int64_t first =
      std::max({segment.live_begin, position - window + 1, int64_t{0}});
  return {.begin = first / kAttentionBlock,
          .end = position / kAttentionBlock + 1,
          .span_blocks = SpanBlocks(window / kAttentionBlock + 1)};
}

AttentionSplit SplitAttention(const AttentionArgs& args, int n_threads) {
  const int64_t group = args.n_heads / args.n_kv_heads;
  AttentionSplit split;
  SetTileHeads(args, std::min(group, MaxQueries(args.head_dim)), split);
  split.row_kv_heads = MostRowKvHeads(args, split);
  split.has_spans = false;
  const auto is_fine_enough = [&] {
    return n_threads == 1 || Tasks(args, split) >= kGroupsPerThread *
                                                       split.n_head_tiles *
                                                       n_threads;
  };
  const int64_t n_whole = Tasks(args, split);
  if (!is_fine_enough()) {
    split.has_spans = true;
    if (Tasks(args, split) == n_whole || !SpansFit(args, split, n_threads)) {
      split.has_spans = false;
    }
    while (split.row_kv_heads > 1 && !is_fine_enough()) {
      split.row_kv_heads = (split.row_kv_heads + 1) / 2;
    }
  }
  if (!split.has_spans && !is_fine_enough()) CutHeads(args, n_threads, split);
  split.n_tasks = Tasks(args, split);
  return split;
}

AttentionTask AttentionTaskAt(const AttentionArgs& args,
                              const AttentionSplit& split, int64_t index) {
  size_t s = 0;
  int64_t per_tile = 0;
  for (;; ++s) {
    const AttentionSegment& segment = args.segments[s];
    per_tile = TileTasks(args, segment, split);
    const int64_t n = Tiles(segment, split) * per_tile;
    if (index < n) break;
    index -= n;
  }
  const int64_t group = args.n_heads / args.n_kv_heads;
  AttentionTask task;
  task.segment = &args.segments[s];
  const int64_t n_spans = SpansOf(args, *task.segment, split);
  const int64_t width = KvHeadsOfTask(*task.segment, split);
  const int64_t in_tile = index % per_tile;
  const int64_t head_tile = in_tile / n_spans % split.n_head_tiles;
  task.kv_head = in_tile / n_spans / split.n_head_tiles * width;
  task.n_kv_heads = std::min(width, args.n_kv_heads - task.kv_head);
  task.first_row = index / per_tile * split.tile_rows;
  task.n_rows =
      std::min(split.tile_rows, task.segment->n_rows - task.first_row);
  task.first_head = task.kv_head * group + head_tile * split.tile_heads;
  task.n_heads =
      task.n_kv_heads *
      std::min(split.tile_heads, group - head_tile * split.tile_heads);
  task.span = index % n_spans;
  task.n_spans = n_spans;
  return task;
}

}  // namespace plimsoll::kernels::cpu
