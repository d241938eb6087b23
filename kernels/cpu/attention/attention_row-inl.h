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

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention/attention_score-inl.h"
#include "kernels/cpu/attention/attention_state-inl.h"
#include "kernels/cpu/attention/kv_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A decode's keys and values come from pages that are spread over memory. So
// values are prefetched while keys are scored, and the next block's keys while
// values are added up, a little at a time. Measured for one row and 4,096 keys
// that are in no cache: f16 1.45 times as fast, q8_0 1.3 times.
HWY_INLINE void Prefetch(const std::byte* from, int64_t n_bytes) {
  for (int64_t i = 0; i < n_bytes; i += 64) hwy::Prefetch(from + i);
}

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
  const int64_t step_bytes = KvBytes(args.v_type, kStep);
  ScoreCells<kCount, kType>(
      args, q,
      [&](int64_t j, int64_t i) {
        if (i % kStep == 0) {
          Prefetch(block.cells.values[j] + i / kStep * step_bytes, step_bytes);
        }
        return LoadSpan<kType>(block.cells.keys[j], i);
      },
      block.begin, block.end, scores);
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
  // Keys of whole blocks are prefetched where the blocks end.
  const int64_t from = KvBytes(args.k_type, at);
  const int64_t n_bytes = KvBytes(args.k_type, at + kVectors * kLanes) - from;
  for (int64_t j = block.begin; j < block.end; ++j) {
    Prefetch(block.next.keys[j] + from, n_bytes);
    Span<kSpan> value[kVectors / kSpan];
    for (int i = 0; i < kVectors / kSpan; ++i) {
      value[i] =
          LoadSpan<kType>(block.cells.values[j], at + i * kSpan * kLanes);
    }
    for (int m = 0; m < kCount; ++m) {
      const auto weight = hn::Set(d, weights[m * kAttentionBlock + j]);
      for (int i = 0; i < kVectors; ++i) {
        acc[m][i] =
            hn::MulAdd(weight, value[i / kSpan].v[i % kSpan], acc[m][i]);
      }
    }
  }
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

// AttendRow takes at most this many heads of a row, so that its sums stay in
// registers.
constexpr int64_t kMaxRowQueries = 4;

// Attends for heads of one row, which all see the same cells.
inline void AttendRow(const AttentionArgs& args, const Block& block,
                      Query* queries, int64_t n_queries,
                      const AttentionScratch& scratch) {
  switch (n_queries) {
    case 1:
      return AttendStored<1>(args, block, queries, scratch);
    case 2:
      return AttendStored<2>(args, block, queries, scratch);
    case 3:
      return AttendStored<3>(args, block, queries, scratch);
    default:
      return AttendStored<kMaxRowQueries>(args, block, queries, scratch);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
