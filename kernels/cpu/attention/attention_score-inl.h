// Scores of keys: dot products in float32. As many are computed at a time as a
// vector has lanes, so that their lanes are added up together. Included once
// per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_SCORE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_SCORE_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_SCORE_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_SCORE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/attention/attention_state-inl.h"
#include "kernels/cpu/attention/kv_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using AttentionVector = hn::Vec<AttentionTag>;

// Adds up the lanes of four vectors within each block of 128 bits: lane i of a
// block of the result is the sum of that block of vectors[i].
HWY_INLINE AttentionVector SumInBlocks(const AttentionVector* vectors) {
  const AttentionTag d;
  const hn::Repartition<double, AttentionTag> d64;
  const auto halves = [&](AttentionVector a, AttentionVector b) {
    return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  };
  const auto first = hn::BitCast(d64, halves(vectors[0], vectors[1]));
  const auto second = hn::BitCast(d64, halves(vectors[2], vectors[3]));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, first, second)),
                 hn::BitCast(d, hn::InterleaveUpper(d64, first, second)));
}

#if HWY_MAX_BYTES >= 32
// The lower half of the result is `a`'s halves added up, the upper half `b`'s.
HWY_INLINE AttentionVector SumHalves(AttentionVector a, AttentionVector b) {
  const AttentionTag d;
  return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
}
#endif

// Lane i of the result is the sum of the lanes of dots[i] [kLanes]. The order
// of its additions is the same for every i.
HWY_INLINE AttentionVector SumEach(const AttentionVector* dots) {
#if HWY_MAX_BYTES >= 64
  const AttentionVector even =
      SumHalves(SumInBlocks(dots), SumInBlocks(dots + 8));
  const AttentionVector odd =
      SumHalves(SumInBlocks(dots + 4), SumInBlocks(dots + 12));
  return hn::Add(hn::OddEvenBlocks(odd, even),
                 hn::SwapAdjacentBlocks(hn::OddEvenBlocks(even, odd)));
#elif HWY_MAX_BYTES >= 32
  return SumHalves(SumInBlocks(dots), SumInBlocks(dots + 4));
#else
  return SumInBlocks(dots);
#endif
}

// Cells [begin, end) of a block.
struct CellRange {
  int64_t begin;
  int64_t end;
};

// scores[m][j] = scale * q[m].k[j] for kCount queries and `cells`, where
// load(j, i) is the span of cell j's key before which there are i elements.
template <int kCount, DType kType, class Load>
HWY_INLINE void ScoreCells(const AttentionArgs& args, const float* const* q,
                           const Load& load, CellRange cells, float* scores) {
  constexpr int kCells = static_cast<int>(kLanes) / kCount;
  constexpr int kSpan = kSpanVectors<kType>;
  const AttentionTag d;
  const auto scale = hn::Set(d, args.scale);
  const int64_t end = cells.end;
  for (int64_t j = cells.begin; j < end; j += kCells) {
    AttentionVector dots[kLanes];
    for (AttentionVector& dot : dots) dot = hn::Zero(d);
    for (int64_t i = 0; i < args.head_dim; i += kSpan * kLanes) {
      Span<kSpan> keys[kCells];
      // Cells at and after `end` repeat the last cell; nobody reads their
      // scores.
      for (int c = 0; c < kCells; ++c) {
        keys[c] = load(std::min<int64_t>(j + c, end - 1), i);
      }
      for (int v = 0; v < kSpan; ++v) {
        for (int m = 0; m < kCount; ++m) {
          const auto query = hn::LoadU(d, q[m] + SpanElement<kType>(i, v));
          for (int c = 0; c < kCells; ++c) {
            AttentionVector& dot = dots[m * kCells + c];
            dot = hn::MulAdd(query, keys[c].v[v], dot);
          }
        }
      }
    }
    HWY_ALIGN float sums[kLanes];
    hn::Store(hn::Mul(SumEach(dots), scale), d, sums);
    const int64_t n = std::min<int64_t>(kCells, end - j);
    for (int m = 0; m < kCount; ++m) {
      float* to = scores + m * kAttentionBlock + j;
      if (n == kCells) {
        std::copy_n(sums + m * kCells, kCells, to);
      } else {
        std::copy_n(sums + m * kCells, n, to);
      }
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
