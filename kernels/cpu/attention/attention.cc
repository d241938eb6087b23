// Online softmax over blocks of at most 64 keys: one page, or 64 aligned
// positions of a ring layer, whether a key lies in the ring or in the chunk.
//
// A task is a few rows of one segment times a few heads that share a KV head.
// It brings each key and value to float32 once, a few cells at a time, so that
// they stay in the nearest cache while every query of the task meets them; the
// heads of a single row need no such tile (attention_row-inl.h).
// What a query does in a block depends only on which of its cells the query
// sees, and spans of blocks are put together in their order, whoever computes
// them, so results do not depend on chunks, tiles or threads.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention/attention_row-inl.h"
#include "kernels/cpu/attention/attention_score-inl.h"
#include "kernels/cpu/attention/attention_state-inl.h"
#include "kernels/cpu/attention/attention_tasks.h"
#include "kernels/cpu/attention/kv_load-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/quant/kv_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = AttentionTag;

// Cells of a block, and their keys or values as float32: `rows` begins at the
// first cell.
struct LoadedCells {
  CellRange cells;
  const float* rows;
};

// scores[m][j] = scale * q[m].k[j] for cells whose keys are loaded. Elements
// are added up in the order of stored keys of kType (ScoreStored).
template <int kCount, DType kType>
void Score(const AttentionArgs& args, const Query* queries, bool is_prefix,
           const LoadedCells& loaded, float* scores) {
  const int64_t begin = loaded.cells.begin;
  const float* const keys = loaded.rows;
  const float* q[kCount];
  for (int m = 0; m < kCount; ++m) {
    q[m] = QueryVector(args, queries[m], is_prefix);
  }
  constexpr int kSpan = kSpanVectors<kType>;
  ScoreCells<kCount, kType>(
      args, q,
      [&](int64_t j, int64_t i) {
        const float* key = keys + (j - begin) * args.head_dim;
        Span<kSpan> span;
        for (int v = 0; v < kSpan; ++v) {
          span.v[v] = hn::LoadU(D(), key + SpanElement<kType>(i, v));
        }
        return span;
      },
      loaded.cells, scores);
}

// sums[m] += sum over cells j of weight[m][j] * v[j], in their order, for
// kVectors vectors of the head from element `at` on. The cells' values are
// loaded.
template <int kCount, int kVectors>
void AddValuesAt(const LoadedCells& loaded, const float* weights, int64_t dim,
                 int64_t at, float* sums) {
  const D d;
  const int64_t end = loaded.cells.end;
  const float* values = loaded.rows + at;
  sums += at;
  hn::Vec<D> acc[kCount][kVectors];
  for (int m = 0; m < kCount; ++m) {
    for (int i = 0; i < kVectors; ++i) {
      acc[m][i] = hn::LoadU(d, sums + m * dim + i * kLanes);
    }
  }
  for (int64_t j = loaded.cells.begin; j < end; ++j, values += dim) {
    hn::Vec<D> value[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      value[i] = hn::LoadU(d, values + i * kLanes);
    }
    for (int m = 0; m < kCount; ++m) {
      const auto weight = hn::Set(d, weights[m * kAttentionBlock + j]);
      for (int i = 0; i < kVectors; ++i) {
        acc[m][i] = hn::MulAdd(weight, value[i], acc[m][i]);
      }
    }
  }
  for (int m = 0; m < kCount; ++m) {
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(acc[m][i], d, sums + m * dim + i * kLanes);
    }
  }
}

template <int kCount>
void AddValues(const LoadedCells& loaded, const float* weights, int64_t dim,
               float* sums) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  int64_t at = 0;
  for (; at + kVectors * kLanes <= dim; at += kVectors * kLanes) {
    AddValuesAt<kCount, kVectors>(loaded, weights, dim, at, sums);
  }
  for (; at < dim; at += kLanes) {
    AddValuesAt<kCount, 1>(loaded, weights, dim, at, sums);
  }
}

// Calls run(count, i, begin, end) for queries [i, i + count) that see the same
// cells [begin, end) of a tile; `count` is 4, 2 or 1, known to the compiler. A
// query that sees none is left out.
template <typename Run>
void ForSameCells(const Query* queries, int64_t n_queries, int64_t tile_begin,
                  int64_t tile_end, const Run& run) {
  int64_t i = 0;
  while (i < n_queries) {
    const int64_t begin = std::max(queries[i].begin, tile_begin);
    const int64_t end = std::min(queries[i].end, tile_end);
    if (begin >= end) {
      ++i;
      continue;
    }
    int64_t same = 1;
    while (same < 4 && i + same < n_queries &&
           std::max(queries[i + same].begin, tile_begin) == begin &&
           std::min(queries[i + same].end, tile_end) == end) {
      ++same;
    }
    if (same == 4) {
      run(std::integral_constant<int, 4>(), i, begin, end);
    } else if (same >= 2) {
      same = 2;
      run(std::integral_constant<int, 2>(), i, begin, end);
    } else {
      run(std::integral_constant<int, 1>(), i, begin, end);
    }
    i += same;
  }
}

// Attends with all queries of the task for the block.
void AttendBlock(const AttentionArgs& args, const Block& block, Query* queries,
                 int64_t n_queries, const AttentionScratch& scratch) {
  const int64_t dim = args.head_dim;
  const int64_t value_dim = args.ValueDim();
  const int64_t tile_cells = std::min(kTileFloats / dim, kAttentionBlock);
  const auto scores_of = [&](int64_t i) {
    return scratch.scores + i * kAttentionBlock;
  };
  for (int64_t t = block.begin; t < block.end; t += tile_cells) {
    const int64_t end = std::min(t + tile_cells, block.end);
    for (int64_t c = t; c < end; ++c) {
      block.next_keys.Prefetch(KvBytes(args.k_type, dim));
      LoadHead(block.Key(c), args.k_type, dim, scratch.tile + (c - t) * dim);
    }
    ForSameCells(queries, n_queries, t, end,
                 [&](auto count, int64_t i, int64_t from, int64_t to) {
                   // All types but those of nibbles have the order of F32.
                   const auto score = IsNibbleType(args.k_type)
                                          ? Score<count, DType::kQ4_0>
                                          : Score<count, DType::kF32>;
                   score(args, queries + i, block.is_prefix,
                         {{from, to}, scratch.tile + (from - t) * dim},
                         scores_of(i));
                 });
  }
  for (int64_t i = 0; i < n_queries; ++i) {
    if (queries[i].begin >= queries[i].end) continue;
    Soften(args, queries[i], scores_of(i), scratch.sums + i * value_dim);
  }
  for (int64_t t = block.begin; t < block.end; t += tile_cells) {
    const int64_t end = std::min(t + tile_cells, block.end);
    for (int64_t c = t; c < end; ++c) {
      block.next_values.Prefetch(KvBytes(args.v_type, value_dim));
      LoadHead(block.Value(c), args.v_type, value_dim,
               scratch.tile + (c - t) * value_dim);
    }
    ForSameCells(queries, n_queries, t, end,
                 [&](auto count, int64_t i, int64_t from, int64_t to) {
                   AddValues<count>(
                       {{from, to}, scratch.tile + (from - t) * value_dim},
                       scores_of(i), value_dim, scratch.sums + i * value_dim);
                 });
  }
}

// Bytes of a row of keys or values, and where the task's first KV head is in
// it.
struct RowLayout {
  int64_t k_bytes;
  int64_t v_bytes;
  int64_t k_offset;
  int64_t v_offset;
};

RowLayout LayoutOf(const AttentionArgs& args, const AttentionTask& task) {
  const int64_t dim = args.n_kv_heads * args.head_dim;
  const int64_t head = task.kv_head * args.head_dim;
  return {KvBytes(args.k_type, dim), KvBytes(args.v_type, dim),
          KvBytes(args.k_type, head), KvBytes(args.v_type, head)};
}

// The blocks of the task: its span's, or all that its rows see.
RowBlocks BlocksOf(const AttentionTask& task, const Query& first,
                   const Query& last) {
  RowBlocks blocks = first.blocks;
  blocks.end = last.blocks.end;
  if (task.n_spans == 1) return blocks;
  const int64_t begin =
      (blocks.begin / blocks.span_blocks + task.span) * blocks.span_blocks;
  blocks.end = std::min(blocks.end, begin + blocks.span_blocks);
  blocks.begin = std::max(blocks.begin, begin);
  return blocks;
}

// A block whose cells are known, as are those of the one after it.
struct FoundBlock {
  int64_t index;
  const Cells& cells;
  const Cells& next;  // none if this block is the last
};

// Calls find(b, cells) for every block, and run(found) once the block and the
// one after it have been found.
template <typename Find, typename Run>
void ForBlocks(const RowBlocks& blocks, const Find& find, const Run& run) {
  Cells cells[2];
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    if (b == blocks.begin) find(b, cells[b % 2]);
    Cells& next = cells[(b + 1) % 2];
    if (b + 1 < blocks.end) {
      find(b + 1, next);
    } else {
      next.n = 0;
    }
    run(FoundBlock{b, cells[b % 2], next});
  }
}

// The queries of a task, and the cells of a block that at least one of them
// sees.
struct TaskQueries {
  Query* queries;
  int64_t n;
  int64_t begin;
  int64_t end;
  bool is_prefix;
};

// Attends with the task's queries, whose `begin` and `end` are set, for a
// block, one KV head after the other.
void AttendHeads(const AttentionArgs& args, const AttentionTask& task,
                 const FoundBlock& found, const TaskQueries& all,
                 const AttentionScratch& scratch) {
  const int64_t value_dim = args.ValueDim();
  const Cells& next = found.next;
  BeginBlock(found.index, value_dim, all.queries, all.n, scratch);
  const int64_t k_bytes = KvBytes(args.k_type, args.head_dim);
  const int64_t v_bytes = KvBytes(args.v_type, value_dim);
  RowsAhead next_keys(next.keys, next.n, task.n_kv_heads * k_bytes);
  RowsAhead next_values(next.values, next.n, task.n_kv_heads * v_bytes);
  const int64_t n_queries = all.n / task.n_kv_heads;
  const bool is_row = task.n_rows == 1 && IsForRow(args, n_queries);
  for (int64_t kv = 0; kv < task.n_kv_heads; ++kv) {
    const Block block = {.cells = found.cells,
                         .k_offset = kv * k_bytes,
                         .v_offset = kv * v_bytes,
                         .next_keys = next_keys,
                         .next_values = next_values,
                         .begin = all.begin,
                         .end = all.end,
                         .is_prefix = all.is_prefix};
    Query* const queries = all.queries + kv * n_queries;
    AttentionScratch own = scratch;
    own.sums += kv * n_queries * value_dim;
    if (is_row) {
      AttendRow(args, block, queries, n_queries, own);
    } else {
      AttendBlock(args, block, queries, n_queries, own);
    }
  }
}

void AttendPages(const AttentionArgs& args, const AttentionTask& task,
                 Query* queries, int64_t n_queries,
                 const AttentionScratch& scratch) {
  const RowLayout layout = LayoutOf(args, task);
  const int64_t last = queries[n_queries - 1].position;
  const RowBlocks blocks = BlocksOf(task, queries[0], queries[n_queries - 1]);
  const auto page_at = [&](int64_t b) -> const PageEntry& {
    return task.segment->pages[static_cast<size_t>(b)];
  };
  const auto find = [&](int64_t b, Cells& found) {
    const std::byte* base =
        args.paged.pool + page_at(b).page * args.paged.page_bytes;
    const std::byte* k = base + args.paged.k_offset + layout.k_offset;
    const std::byte* v = base + args.paged.v_offset + layout.v_offset;
    found.n = args.paged.page_tokens;
    for (int64_t c = 0; c < found.n; ++c) {
      found.keys[c] = k + c * layout.k_bytes;
      found.values[c] = v + c * layout.v_bytes;
    }
  };
  ForBlocks(blocks, find, [&](const FoundBlock& block) {
    const PageEntry& page = page_at(block.index);
    const TaskQueries all = {
        .queries = queries,
        .n = n_queries,
        .begin = page.live_begin,
        .end = std::min<int64_t>(page.live_end, last - page.first_position + 1),
        .is_prefix = page.is_prefix};
    if (all.begin >= all.end) return;
    for (int64_t i = 0; i < n_queries; ++i) {
      queries[i].begin = all.begin;
      queries[i].end =
          std::min(all.end, queries[i].position - page.first_position + 1);
    }
    AttendHeads(args, task, block, all, scratch);
  });
}

void AttendRing(const AttentionArgs& args, const AttentionTask& task,
                Query* queries, int64_t n_queries,
                const AttentionScratch& scratch) {
  const AttentionSegment& segment = *task.segment;
  const RowLayout layout = LayoutOf(args, task);
  const auto first_seen = [&](const Query& query) {
    return std::max({segment.live_begin,
                     query.position - segment.ring.window + 1, int64_t{0}});
  };
  const int64_t first = first_seen(queries[0]);
  const int64_t last = queries[n_queries - 1].position;
  const RowBlocks blocks = BlocksOf(task, queries[0], queries[n_queries - 1]);
  // Cells that hold nothing yet are found as well; nobody reads them.
  const auto find = [&](int64_t b, Cells& found) {
    found.n = kAttentionBlock;
    for (int64_t c = 0; c < found.n; ++c) {
      const int64_t position = b * kAttentionBlock + c;
      const bool is_old = position < segment.first_position;
      const int64_t row =
          is_old ? position % segment.ring.window
                 : segment.first_row + position - segment.first_position;
      const std::byte* k = is_old ? segment.ring.k : args.chunk_k;
      const std::byte* v = is_old ? segment.ring.v : args.chunk_v;
      found.keys[c] = k + row * layout.k_bytes + layout.k_offset;
      found.values[c] = v + row * layout.v_bytes + layout.v_offset;
    }
  };
  ForBlocks(blocks, find, [&](const FoundBlock& block) {
    const int64_t base = block.index * kAttentionBlock;
    const TaskQueries all = {.queries = queries,
                             .n = n_queries,
                             .begin = std::max(base, first) - base,
                             .end = std::min(last + 1 - base, kAttentionBlock),
                             .is_prefix = false};
    for (int64_t i = 0; i < n_queries; ++i) {
      queries[i].begin = std::max<int64_t>(first_seen(queries[i]) - base, 0);
      queries[i].end =
          std::min(queries[i].position - base + 1, kAttentionBlock);
    }
    AttendHeads(args, task, block, all, scratch);
  });
}

void WriteOut(const AttentionArgs& args, int64_t row, int64_t head,
              const State& state, const float* sums) {
  const D d;
  const int64_t dim = args.ValueDim();
  float* out = args.out + (row * args.n_heads + head) * dim;
  if (state.max == kNone) {  // it saw nothing
    std::fill_n(out, dim, 0.0f);
    return;
  }
  float total = state.total;
  // A sink far above the scores makes the total infinite: the row is zeros.
  if (args.sinks != nullptr) total += std::exp(args.sinks[head] - state.max);
  const auto inverse = hn::Set(d, 1.0f / total);
  for (int64_t i = 0; i < dim; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + i), inverse), d, out + i);
  }
}

}  // namespace

void Attend(const AttentionArgs& args, const AttentionTask& task,
            const AttentionScratch& scratch, float* partial) {
  const int64_t dim = args.ValueDim();
  Query queries[kMaxRowQueries];
  int64_t n_queries = 0;
  for (int64_t r = 0; r < task.n_rows; ++r) {
    const int64_t position = task.segment->first_position + task.first_row + r;
    const RowBlocks blocks = RowBlocksAt(args, *task.segment, position);
    for (int64_t h = 0; h < task.n_heads; ++h) {
      Query& query = queries[n_queries++];
      query = {};
      query.row = task.segment->first_row + task.first_row + r;
      query.head = task.first_head + h;
      query.position = position;
      query.blocks = blocks;
      query.span = -1;
    }
  }
  if (args.is_ring) {
    AttendRing(args, task, queries, n_queries, scratch);
  } else {
    AttendPages(args, task, queries, n_queries, scratch);
  }
  for (int64_t i = 0; i < n_queries; ++i) {
    const Query& query = queries[i];
    const float* sums = scratch.sums + i * dim;
    if (task.n_spans > 1) {
      float* out = partial + i * (2 + dim);
      out[0] = query.now.max;
      out[1] = query.now.total;
      std::copy_n(sums, dim, out + 2);
      continue;
    }
    State state = query.before;
    Join(query.now, sums, dim, state, scratch.totals + i * dim);
    WriteOut(args, query.row, query.head, state, scratch.totals + i * dim);
  }
}

void JoinSpans(const AttentionArgs& args, const AttentionTask& task,
               const float* partials, int64_t partial_floats, float* totals) {
  const int64_t dim = args.ValueDim();
  for (int64_t h = 0; h < task.n_heads; ++h) {
    State state;
    std::fill_n(totals, dim, 0.0f);
    for (int64_t s = 0; s < task.n_spans; ++s) {
      const float* from = partials + s * partial_floats + h * (2 + dim);
      Join({from[0], from[1]}, from + 2, dim, state, totals);
    }
    WriteOut(args, task.segment->first_row + task.first_row,
             task.first_head + h, state, totals);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(Attend);
HWY_EXPORT(JoinSpans);

namespace {

constexpr int64_t kScratchFloats =
    kTileFloats + 2 * kSumFloats + kMaxQueries * kAttentionBlock;

AttentionScratch ScratchAt(float* at) {
  AttentionScratch scratch;
  scratch.tile = at;
  scratch.sums = scratch.tile + kTileFloats;
  scratch.totals = scratch.sums + kSumFloats;
  scratch.scores = scratch.totals + kSumFloats;
  return scratch;
}

}  // namespace

int64_t AttentionScratchFloats(int n_threads) {
  return n_threads * kScratchFloats + PartialFloats(n_threads);
}

void Attention(const AttentionArgs& args, ThreadPool& pool, float* scratch) {
  const AttentionSplit split = SplitAttention(args, pool.n_threads());
  const int64_t partial_floats = SpanFloats(args, split);
  float* partials = scratch + pool.n_threads() * kScratchFloats;
  pool.ParallelFor(split.n_tasks, 1,
                   [&](int64_t begin, int64_t end, int thread) {
                     const AttentionScratch own =
                         ScratchAt(scratch + thread * kScratchFloats);
                     for (int64_t i = begin; i < end; ++i) {
                       HWY_DYNAMIC_DISPATCH(Attend)
                       (args, AttentionTaskAt(args, split, i), own,
                        partials + i * partial_floats);
                     }
                   });
  if (!split.has_spans) return;
  const AttentionScratch own = ScratchAt(scratch);
  for (int64_t i = 0; i < split.n_tasks;) {
    const AttentionTask task = AttentionTaskAt(args, split, i);
    if (task.n_spans > 1) {
      HWY_DYNAMIC_DISPATCH(JoinSpans)
      (args, task, partials + i * partial_floats, partial_floats, own.totals);
    }
    i += task.n_spans;
  }
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
