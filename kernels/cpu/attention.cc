// Online softmax over blocks of at most 64 keys: one page, or 64 aligned
// positions of a ring layer, whether a key lies in the ring or in the chunk.
//
// A task is a few rows of one segment times a few heads that share a KV head;
// it brings each block of keys and values to float32 once. What a query does
// in a block depends only on which of its cells the query sees, so results do
// not depend on chunks, tiles or threads.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstring>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_tasks.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = hn::CappedTag<float, 16>;
constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// The state of one query between blocks, and its view of the current block.
struct Query {
  int64_t row;  // in the step's buffers
  int64_t head;
  int64_t position;
  float max;
  float total;
  float correction;  // of earlier sums, for a larger maximum
  int64_t begin;     // cells of the block that it sees
  int64_t end;
};

void LoadHead(const std::byte* from, DType dtype, int64_t head_dim, float* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(head_dim) * sizeof(float));
    return;
  }
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
  for (int64_t i = 0; i < head_dim; i += kLanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, halves + i)), d, to + i);
  }
}

const float* QueryVector(const AttentionArgs& args, const Query& query,
                         bool is_prefix) {
  const float* q = is_prefix ? args.q_prefix : args.q;
  return q + (query.row * args.n_heads + query.head) * args.head_dim;
}

// scores[m][j] = scale * q[m].k[j] for the cells that all kCount queries see.
template <int kCount>
void Score(const AttentionArgs& args, const Query* queries, bool is_prefix,
           const float* keys, float* scores) {
  const D d;
  const float* q[kCount];
  for (int m = 0; m < kCount; ++m) {
    q[m] = QueryVector(args, queries[m], is_prefix);
  }
  for (int64_t j = queries[0].begin; j < queries[0].end; ++j) {
    const float* key = keys + j * args.head_dim;
    hn::Vec<D> dot[kCount];
    for (int m = 0; m < kCount; ++m) dot[m] = hn::Zero(d);
    for (int64_t i = 0; i < args.head_dim; i += kLanes) {
      const auto k = hn::LoadU(d, key + i);
      for (int m = 0; m < kCount; ++m) {
        dot[m] = hn::MulAdd(hn::LoadU(d, q[m] + i), k, dot[m]);
      }
    }
    for (int m = 0; m < kCount; ++m) {
      scores[m * kAttentionBlock + j] =
          args.scale * hn::GetLane(hn::SumOfLanes(d, dot[m]));
    }
  }
}

// Turns scores into weights and updates the query's running maximum and total.
void Soften(Query& query, float* scores) {
  const D d;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::fill(scores, scores + query.begin, kNone);
  std::fill(scores + query.end, scores + kAttentionBlock, kNone);
  auto v_max = hn::Set(d, query.max);
  for (int64_t j = 0; j < kAttentionBlock; j += kLanes) {
    v_max = hn::Max(v_max, hn::LoadU(d, scores + j));
  }
  const float max = hn::GetLane(hn::MaxOfLanes(d, v_max));
  const auto shift = hn::Set(d, max);
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < kAttentionBlock; j += kLanes) {
    const auto weight = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    hn::StoreU(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  query.correction =
      hn::GetLane(hn::Exp(d, hn::Sub(hn::Set(d, query.max), shift)));
  query.total =
      query.total * query.correction + hn::GetLane(hn::SumOfLanes(d, sum));
  query.max = max;
}

// sums[m] = sums[m] * correction + sum over j of weight[m][j] * v[j], in the
// order of the cells, for kVectors vectors of the head.
template <int kCount, int kVectors>
void AddValuesAt(const Query* queries, const float* weights,
                 const float* values, int64_t head_dim, int64_t at,
                 float* sums) {
  const D d;
  hn::Vec<D> acc[kCount][kVectors];
  for (int m = 0; m < kCount; ++m) {
    const auto correction = hn::Set(d, queries[m].correction);
    for (int i = 0; i < kVectors; ++i) {
      const float* sum = sums + m * head_dim + at + i * kLanes;
      acc[m][i] = hn::Mul(hn::LoadU(d, sum), correction);
    }
  }
  for (int64_t j = queries[0].begin; j < queries[0].end; ++j) {
    hn::Vec<D> value[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      value[i] = hn::LoadU(d, values + j * head_dim + at + i * kLanes);
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
      hn::StoreU(acc[m][i], d, sums + m * head_dim + at + i * kLanes);
    }
  }
}

template <int kCount>
void AddValues(const Query* queries, const float* weights, const float* values,
               int64_t head_dim, float* sums) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  int64_t at = 0;
  for (; at + kVectors * kLanes <= head_dim; at += kVectors * kLanes) {
    AddValuesAt<kCount, kVectors>(queries, weights, values, head_dim, at, sums);
  }
  for (; at < head_dim; at += kLanes) {
    AddValuesAt<kCount, 1>(queries, weights, values, head_dim, at, sums);
  }
}

// kCount queries that see the same cells of the block in scratch.
template <int kCount>
void AttendBlock(const AttentionArgs& args, Query* queries, int64_t first,
                 bool is_prefix, const AttentionScratch& scratch) {
  float* scores = scratch.scores + first * kAttentionBlock;
  Score<kCount>(args, queries + first, is_prefix, scratch.keys, scores);
  for (int m = 0; m < kCount; ++m) {
    Soften(queries[first + m], scores + m * kAttentionBlock);
  }
  AddValues<kCount>(queries + first, scores, scratch.values, args.head_dim,
                    scratch.sums + first * args.head_dim);
}

// All queries of the task against the block in scratch, four at a time where
// they see the same cells. A query that sees none is left as it is.
void AttendAll(const AttentionArgs& args, Query* queries, int64_t n_queries,
               bool is_prefix, const AttentionScratch& scratch) {
  int64_t i = 0;
  while (i < n_queries) {
    const Query& query = queries[i];
    if (query.begin >= query.end) {
      ++i;
      continue;
    }
    int64_t same = 1;
    while (same < 4 && i + same < n_queries &&
           queries[i + same].begin == query.begin &&
           queries[i + same].end == query.end) {
      ++same;
    }
    if (same == 4) {
      AttendBlock<4>(args, queries, i, is_prefix, scratch);
    } else if (same >= 2) {
      same = 2;
      AttendBlock<2>(args, queries, i, is_prefix, scratch);
    } else {
      AttendBlock<1>(args, queries, i, is_prefix, scratch);
    }
    i += same;
  }
}

int64_t RowBytesOf(const AttentionArgs& args, DType dtype) {
  return args.n_kv_heads * args.head_dim * (dtype == DType::kF32 ? 4 : 2);
}

int64_t HeadOffset(const AttentionArgs& args, const AttentionTask& task,
                   DType dtype) {
  return task.kv_head * args.head_dim * (dtype == DType::kF32 ? 4 : 2);
}

void AttendPages(const AttentionArgs& args, const AttentionTask& task,
                 Query* queries, int64_t n_queries,
                 const AttentionScratch& scratch) {
  const int64_t k_bytes = RowBytesOf(args, args.k_type);
  const int64_t v_bytes = RowBytesOf(args, args.v_type);
  const int64_t last = queries[n_queries - 1].position;
  for (const PageEntry& page : task.segment->pages) {
    const int64_t begin = page.live_begin;
    const int64_t end =
        std::min<int64_t>(page.live_end, last - page.first_position + 1);
    if (begin >= end) continue;
    const std::byte* base = args.paged.pool + page.page * args.paged.page_bytes;
    const std::byte* k =
        base + args.paged.k_offset + HeadOffset(args, task, args.k_type);
    const std::byte* v =
        base + args.paged.v_offset + HeadOffset(args, task, args.v_type);
    for (int64_t c = begin; c < end; ++c) {
      LoadHead(k + c * k_bytes, args.k_type, args.head_dim,
               scratch.keys + c * args.head_dim);
      LoadHead(v + c * v_bytes, args.v_type, args.head_dim,
               scratch.values + c * args.head_dim);
    }
    for (int64_t i = 0; i < n_queries; ++i) {
      queries[i].begin = begin;
      queries[i].end =
          std::min(end, queries[i].position - page.first_position + 1);
    }
    AttendAll(args, queries, n_queries, page.is_prefix, scratch);
  }
}

// Brings the key and value of `position` to cell `cell` of scratch.
void LoadRingCell(const AttentionArgs& args, const AttentionTask& task,
                  int64_t position, int64_t cell,
                  const AttentionScratch& scratch) {
  const AttentionSegment& segment = *task.segment;
  const bool is_old = position < segment.first_position;
  const int64_t row =
      is_old ? position % segment.ring.window
             : segment.first_row + position - segment.first_position;
  const std::byte* k = is_old ? segment.ring.k : args.chunk_k;
  const std::byte* v = is_old ? segment.ring.v : args.chunk_v;
  LoadHead(k + row * RowBytesOf(args, args.k_type) +
               HeadOffset(args, task, args.k_type),
           args.k_type, args.head_dim, scratch.keys + cell * args.head_dim);
  LoadHead(v + row * RowBytesOf(args, args.v_type) +
               HeadOffset(args, task, args.v_type),
           args.v_type, args.head_dim, scratch.values + cell * args.head_dim);
}

void AttendRing(const AttentionArgs& args, const AttentionTask& task,
                Query* queries, int64_t n_queries,
                const AttentionScratch& scratch) {
  const AttentionSegment& segment = *task.segment;
  const auto first_seen = [&](const Query& query) {
    return std::max({segment.live_begin,
                     query.position - segment.ring.window + 1, int64_t{0}});
  };
  const int64_t first = first_seen(queries[0]);
  const int64_t last = queries[n_queries - 1].position;
  for (int64_t base = first / kAttentionBlock * kAttentionBlock; base <= last;
       base += kAttentionBlock) {
    const int64_t end = std::min(last + 1, base + kAttentionBlock);
    for (int64_t p = std::max(base, first); p < end; ++p) {
      LoadRingCell(args, task, p, p - base, scratch);
    }
    for (int64_t i = 0; i < n_queries; ++i) {
      queries[i].begin = std::max<int64_t>(first_seen(queries[i]) - base, 0);
      queries[i].end =
          std::min(queries[i].position - base + 1, kAttentionBlock);
    }
    AttendAll(args, queries, n_queries, /*is_prefix=*/false, scratch);
  }
}

void WriteOut(const AttentionArgs& args, const Query& query,
              const float* sums) {
  const D d;
  float* out =
      args.out + (query.row * args.n_heads + query.head) * args.head_dim;
  const bool saw_keys = query.max != -std::numeric_limits<float>::infinity();
  const auto inverse = hn::Set(d, saw_keys ? 1.0f / query.total : 0.0f);
  for (int64_t i = 0; i < args.head_dim; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + i), inverse), d, out + i);
  }
}

}  // namespace

void Attend(const AttentionArgs& args, const AttentionTask& task,
            const AttentionScratch& scratch) {
  Query queries[kMaxQueries];
  int64_t n_queries = 0;
  for (int64_t r = 0; r < task.n_rows; ++r) {
    for (int64_t h = 0; h < task.n_heads; ++h) {
      Query& query = queries[n_queries++];
      query = {};
      query.row = task.segment->first_row + task.first_row + r;
      query.head = task.first_head + h;
      query.position = task.segment->first_position + task.first_row + r;
      query.max = -std::numeric_limits<float>::infinity();
    }
  }
  std::fill_n(scratch.sums, n_queries * args.head_dim, 0.0f);
  if (args.is_ring) {
    AttendRing(args, task, queries, n_queries, scratch);
  } else {
    AttendPages(args, task, queries, n_queries, scratch);
  }
  for (int64_t i = 0; i < n_queries; ++i) {
    WriteOut(args, queries[i], scratch.sums + i * args.head_dim);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(Attend);

int64_t AttentionScratchFloats() {
  return 2 * kAttentionBlock * kMaxHeadDim + kMaxQueries * kMaxHeadDim +
         kMaxQueries * kAttentionBlock;
}

void Attention(const AttentionArgs& args, ThreadPool& pool, float* scratch) {
  const AttentionSplit split = SplitAttention(args, pool.n_threads());
  pool.ParallelFor(split.n_tasks, 1,
                   [&](int64_t begin, int64_t end, int thread) {
                     float* at = scratch + thread * AttentionScratchFloats();
                     AttentionScratch own;
                     own.keys = at;
                     own.values = own.keys + kAttentionBlock * args.head_dim;
                     own.sums = own.values + kAttentionBlock * args.head_dim;
                     own.scores = own.sums + kMaxQueries * args.head_dim;
                     for (int64_t i = begin; i < end; ++i) {
                       HWY_DYNAMIC_DISPATCH(Attend)
                       (args, AttentionTaskAt(args, split, i), own);
                     }
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
