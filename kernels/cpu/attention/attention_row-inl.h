// Attention of a single row, as a decode has it. It reads keys and values as
// they are stored. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_ROW_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_ROW_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_ROW_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_ROW_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/attention/attention_score-inl.h"
#include "kernels/cpu/attention/attention_state-inl.h"
#include "kernels/cpu/attention/kv_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// scores[m][j] = scale * q[m].k[j] for kCount queries that see all cells of the
// block. Keys go to the sums as soon as they are float32.
template <int kCount, DType kType>
void ScoreStored(const AttentionArgs& args, const Block& block,
                 const Query* queries, float* scores) {
  const float* q[kCount];
  for (int m = 0; m < kCount; ++m) {
    q[m] = QueryVector(args, queries[m], block.is_prefix);
  }
  constexpr int64_t kStep = 32;  // elements: a cache line, or two
  const int64_t step_bytes = KvBytes(kType, kStep);
  RowsAhead next = block.next_keys;
  ScoreCells<kCount, kType>(
      args, q,
      [&](int64_t j, int64_t i) {
        if (i % kStep == 0) next.Prefetch(step_bytes);
        return LoadSpan<kType>(block.Key(j), i);
      },
      {block.begin, block.end}, scores);
  block.next_keys = next;
}

// sums[m] += sum over the block's cells j of weight[m][j] * v[j], in their
// order, for kVectors vectors of the head, those of the spans before which
// there are `at` elements.
template <int kCount, DType kType, int kVectors>
void AddStoredAt(const AttentionArgs& args, const Block& block, int64_t at,
                 const float* weights, float* sums) {
  const AttentionTag d;
  constexpr int kSpan = kSpanVectors<kType>;
  const int64_t dim = args.ValueDim();
  const auto sums_at = [&](int m, int i) {
    return sums + m * dim +
           SpanElement<kType>(at + i / kSpan * kSpan * kLanes, i % kSpan);
  };
  hn::Vec<AttentionTag> acc[kCount][kVectors];
  for (int m = 0; m < kCount; ++m) {
    for (int i = 0; i < kVectors; ++i) {
      acc[m][i] = hn::LoadU(d, sums_at(m, i));
    }
  }
  // Values of whole blocks are prefetched where the blocks end.
  const int64_t n_bytes =
      KvBytes(kType, at + kVectors * kLanes) - KvBytes(kType, at);
  RowsAhead next = block.next_values;
  for (int64_t j = block.begin; j < block.end; ++j) {
    next.Prefetch(n_bytes);
    Span<kSpan> value[kVectors / kSpan];
    for (int i = 0; i < kVectors / kSpan; ++i) {
      value[i] = LoadSpan<kType>(block.Value(j), at + i * kSpan * kLanes);
    }
    for (int m = 0; m < kCount; ++m) {
      const auto weight = hn::Set(d, weights[m * kAttentionBlock + j]);
      for (int i = 0; i < kVectors; ++i) {
        acc[m][i] =
            hn::MulAdd(weight, value[i / kSpan].v[i % kSpan], acc[m][i]);
      }
    }
  }
  block.next_values = next;
  for (int m = 0; m < kCount; ++m) {
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(acc[m][i], d, sums_at(m, i));
    }
  }
}

template <int kCount, DType kType>
void AddStored(const AttentionArgs& args, const Block& block,
               const float* weights, float* sums) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  const int64_t dim = args.ValueDim();
  int64_t at = 0;
  for (; at + kVectors * kLanes <= dim; at += kVectors * kLanes) {
    AddStoredAt<kCount, kType, kVectors>(args, block, at, weights, sums);
  }
  constexpr int kSpan = kSpanVectors<kType>;
  for (; at < dim; at += kSpan * kLanes) {
    AddStoredAt<kCount, kType, kSpan>(args, block, at, weights, sums);
  }
}

template <int kCount>
void AttendStored(const AttentionArgs& args, const Block& block, Query* queries,
                  const AttentionScratch& scratch) {
  WithKvType(args.k_type, [&](auto type) {
    ScoreStored<kCount, type>(args, block, queries, scratch.scores);
  });
  for (int m = 0; m < kCount; ++m) {
    Soften(args, queries[m], scratch.scores + m * kAttentionBlock,
           scratch.sums + m * args.ValueDim());
  }
  WithKvType(args.v_type, [&](auto type) {
    AddStored<kCount, type>(args, block, scratch.scores, scratch.sums);
  });
}

// So many heads of a row are computed at a time that their sums stay in
// registers.
constexpr int64_t kRowQueries = 4;

// Whether AttendRow is faster than a tile of float32 for `n_queries` heads of a
// row. It converts keys and values once for each kRowQueries heads, which takes
// long for nibbles. Measured with 16 heads: f16 1.4 times as fast, q8_0 1.05,
// q5_1 0.8.
inline bool IsForRow(const AttentionArgs& args, int64_t n_queries) {
  return n_queries <= 2 * kRowQueries ||
         !(IsNibbleType(args.k_type) || IsNibbleType(args.v_type));
}

// Attends for heads of one row, which all see the same cells.
inline void AttendRow(const AttentionArgs& args, const Block& block,
                      Query* queries, int64_t n_queries,
                      AttentionScratch scratch) {
  for (; n_queries >= kRowQueries; n_queries -= kRowQueries) {
    AttendStored<kRowQueries>(args, block, queries, scratch);
    queries += kRowQueries;
    scratch.sums += kRowQueries * args.ValueDim();
  }
  switch (n_queries) {
    case 1:
      return AttendStored<1>(args, block, queries, scratch);
    case 2:
      return AttendStored<2>(args, block, queries, scratch);
    case 3:
      return AttendStored<3>(args, block, queries, scratch);
    default:
      return;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
