// Packs activations as int16 values with a scale per block of 32.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/pack_activations.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/fold_lanes-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/quant/packed_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Blocks that are packed together. Much of the work is on one number of each
// block, so a vector takes that number of several blocks.
constexpr size_t kTogether = 4;  // the vectors that FoldLanes takes
constexpr size_t kBlock = kActivationBlock;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DF4 = hn::Rebind<float, DI4>;
using VI = hn::Vec<DI>;
constexpr size_t kLanes = hn::MaxLanes(DF());

// Adding this to a value below 2^22 leaves the nearest integer in the low bits.
constexpr float kRounder = 0x1.8p23f;
constexpr int32_t kRounderBits = 0x4b400000;

// The numbers that are kept of each block beside its values.
struct BlockNumbers {
  HWY_ALIGN float scales[kTogether];
  HWY_ALIGN float sums[kTogether];
  HWY_ALIGN int32_t half_cross[kTogether];
  HWY_ALIGN int32_t all_cross[kTogether];
};

// Multiplies, in every 4 lanes, the first with the third and the second with
// the fourth. The products may be in any of these lanes.
template <class D>
HWY_INLINE hn::Vec<D> Cross(D d, hn::Vec<D> q) {
  return hn::Mul(q, hn::ShiftLeftBytes<8>(d, q));
}

template <class D>
HWY_INLINE VI4 FirstBlock(D /*d*/, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == kTogether) {
    return v;
  } else {
    const hn::Half<D> half;
    return FirstBlock(half, hn::LowerHalf(half, v));
  }
}

// The largest magnitude of each block, as the bits of a float: they have the
// order of the magnitudes, with NaN and infinity at the end.
VI4 LargestMagnitudes(const float* x, size_t n_blocks) {
  const DF d;
  const DI di;
  VI most[kTogether];
  for (size_t b = 0; b < kTogether; ++b) {
    const float* block = x + std::min(b, n_blocks - 1) * kBlock;
    most[b] = hn::Zero(di);
    for (size_t i = 0; i < kBlock; i += kLanes) {
      const auto magnitude = hn::Abs(hn::LoadU(d, block + i));
      most[b] = hn::Max(most[b], hn::BitCast(di, magnitude));
    }
  }
  return FoldLanes(di, most, TakeMaximum());
}

void StoreNumbers(const BlockNumbers& numbers, size_t n_blocks, std::byte* out,
                  const BlockPlace& place) {
  for (size_t b = 0; b < n_blocks; ++b) {
    const auto i = static_cast<int64_t>(b);
    std::memcpy(out + place.scale + i * place.to_next_number,
                &numbers.scales[b], 4);
    std::memcpy(out + place.sum + i * place.to_next_number, &numbers.sums[b],
                4);
    std::byte* both = out + place.cross + i * place.to_next_cross;
    std::memcpy(both, &numbers.half_cross[b], 4);
    std::memcpy(both + 4, &numbers.all_cross[b], 4);
  }
}

// How the blocks that are packed together become integers.
struct Scaling {
  HWY_ALIGN float inverse[kTogether];
  HWY_ALIGN int32_t keep[kTogether];  // bits of a value; 0: it becomes zero
  hn::Vec<DF4> scale;  // what an integer stands for; NaN if not all are finite
  hn::Mask<DI4> is_finite;

  // `amax_bits` has the blocks' largest magnitudes.
  HWY_INLINE explicit Scaling(VI4 amax_bits) {
    const DF4 d4;
    const DI4 di4;
    const auto amax = hn::BitCast(d4, amax_bits);
    const auto limit = hn::Set(d4, kActivationMax);
    is_finite = hn::Lt(
        amax_bits,
        hn::BitCast(di4, hn::Set(d4, std::numeric_limits<float>::infinity())));
    const auto is_zero = hn::Lt(amax, hn::Set(d4, kMinBlockAmax));
    scale = IfFinite(hn::IfThenZeroElse(is_zero, hn::Div(amax, limit)));
    hn::Store(hn::Div(limit, amax), d4, inverse);
    hn::Store(hn::VecFromMask(
                  di4, hn::AndNot(hn::RebindMask(di4, is_zero), is_finite)),
              di4, keep);
  }

  // Numbers of blocks, or NaN for those that are not finite.
  HWY_INLINE hn::Vec<DF4> IfFinite(hn::Vec<DF4> numbers) const {
    const DF4 d4;
    const auto nan = hn::Set(d4, std::numeric_limits<float>::quiet_NaN());
    return hn::IfThenElse(hn::RebindMask(d4, is_finite), numbers, nan);
  }
};

// What the blocks' integers add up to: a vector for each block, whose lanes are
// still to be added.
struct BlockSums {
  VI sums[kTogether];
  VI cross[kTogether];        // cross products of the first four groups
  VI4 last_cross[kTogether];  // cross products of the fifth group
};

// Rounds block `b`, which is at `x`, to integers at `values`, and sums them up.
HWY_INLINE void RoundBlock(const Scaling& scaling, size_t b, const float* x,
                           int16_t* values, BlockSums& out) {
  const DF d;
  const DI di;
  const hn::Rebind<int16_t, DF> d16;
  const auto by = hn::Set(d, scaling.inverse[b]);
  const auto mask = hn::BitCast(d, hn::Set(di, scaling.keep[b]));
  const auto rounder = hn::Set(d, kRounder);
  const auto rounder_bits = hn::Set(di, kRounderBits);
  out.sums[b] = hn::Zero(di);
  out.cross[b] = hn::Zero(di);
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const auto value = hn::And(hn::Mul(hn::LoadU(d, x + i), by), mask);
    const VI q =
        hn::Sub(hn::BitCast(di, hn::Add(value, rounder)), rounder_bits);
    hn::StoreU(hn::DemoteTo(d16, q), d16, values + i);
    out.sums[b] = hn::Add(out.sums[b], q);
    if (i < 16) out.cross[b] = hn::Add(out.cross[b], Cross(di, q));
    if (i == 16) out.last_cross[b] = Cross(DI4(), FirstBlock(di, q));
  }
}

// Packs at least one block of `x` to its place in `out`. The last block stands
// in for blocks beyond it.
void PackTogether(const float* x, size_t n_blocks, std::byte* out,
                  const BlockPlace& place) {
  const DI di;
  const DF4 d4;
  const DI4 di4;
  const Scaling scaling(LargestMagnitudes(x, n_blocks));
  BlockSums blocks;
  for (size_t b = 0; b < kTogether; ++b) {
    const size_t index = std::min(b, n_blocks - 1);
    auto* values = reinterpret_cast<int16_t*>(out + place.values +
                                              static_cast<int64_t>(index) *
                                                  place.to_next_values);
    RoundBlock(scaling, b, x + index * kBlock, values, blocks);
  }
  BlockNumbers numbers;
  hn::Store(scaling.scale, d4, numbers.scales);
  const VI4 sum = FoldLanes(di, blocks.sums, TakeSum());
  hn::Store(scaling.IfFinite(hn::Mul(scaling.scale, hn::ConvertTo(d4, sum))),
            d4, numbers.sums);
  const VI4 half = FoldLanes(di, blocks.cross, TakeSum());
  hn::Store(half, di4, numbers.half_cross);
  hn::Store(hn::Add(half, FoldLanes(di4, blocks.last_cross, TakeSum())), di4,
            numbers.all_cross);
  StoreNumbers(numbers, n_blocks, out, place);
}

}  // namespace

// Packs blocks of a row. `groups` are the groups of all rows, or null where
// rows are not grouped.
void PackBlocksOfRow(const PackActivationsArgs& args, const RowGroups* groups,
                     BlocksOfRow blocks) {
  while (blocks.begin < blocks.end) {
    const int64_t n =
        std::min(static_cast<int64_t>(kTogether), blocks.end - blocks.begin);
    PackTogether(blocks.x, static_cast<size_t>(n), args.out,
                 groups != nullptr
                     ? PlaceInGroup(args.dim, *groups, blocks.row, blocks.begin)
                     : PlaceInRow(args.dim, blocks.row, blocks.begin));
    blocks.begin += n;
    blocks.x += n * kActivationBlock;
  }
}

// Packs blocks [begin, end), counted over all rows.
void PackBlocks(const PackActivationsArgs& args, int64_t begin, int64_t end) {
  const int64_t n_blocks = args.dim / kActivationBlock;
  const RowGroups groups(args.n_rows);
  const RowGroups* used = IsGrouped(args.n_rows) ? &groups : nullptr;
  while (begin < end) {
    const int64_t row = begin / n_blocks;
    const int64_t b = begin % n_blocks;
    const int64_t n = std::min(n_blocks - b, end - begin);
    PackBlocksOfRow(args, used,
                    {.row = row,
                     .begin = b,
                     .end = b + n,
                     .x = args.x + begin * kActivationBlock});
    begin += n;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(PackBlocks);

void PackActivations(const PackActivationsArgs& args, ThreadPool& pool) {
  const int64_t n_blocks = args.dim / kActivationBlock;
  const int64_t grain = PackingGrain(args.n_rows, RowGrain(args.dim));
  pool.ParallelFor(args.n_rows, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(PackBlocks)(args, begin * n_blocks, end * n_blocks);
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
