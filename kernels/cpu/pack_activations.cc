// Activations as int16 values with a scale per block of 32.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pack_activations.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"
#include "kernels/packed_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

struct BlockScales {
  float scale;
  float scaled_sum;
};

BlockScales PackBlock(const float* x, int16_t* out) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int16_t, decltype(d)> ds;
  const size_t lanes = hn::Lanes(d);
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  auto v_max = hn::Zero(d);
  bool is_finite = true;
  for (size_t i = 0; i < 32; i += lanes) {
    const auto magnitude = hn::Abs(hn::LoadU(d, x + i));
    is_finite &= hn::AllTrue(d, hn::Lt(magnitude, infinity));
    v_max = hn::Max(v_max, magnitude);
  }
  const float amax = hn::GetLane(hn::MaxOfLanes(d, v_max));
  if (!is_finite || !(amax >= kMinBlockAmax)) {
    std::memset(out, 0, 32 * sizeof(int16_t));
    const float scale =
        is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return {scale, scale};
  }
  const float scale = amax / kActivationMax;
  const auto inverse = hn::Set(d, kActivationMax / amax);
  auto v_sum = hn::Zero(di);
  for (size_t i = 0; i < 32; i += lanes) {
    const auto q = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse));
    v_sum = hn::Add(v_sum, q);
    hn::StoreU(hn::DemoteTo(ds, q), ds, out + i);
  }
  const int32_t sum = hn::GetLane(hn::SumOfLanes(di, v_sum));
  return {scale, scale * static_cast<float>(sum)};
}

}  // namespace

// Blocks [begin, end) of those of all rows.
void PackBlocks(const PackActivationsArgs& args, int64_t begin, int64_t end) {
  const int64_t n_blocks = args.dim / kActivationBlock;
  int64_t row = begin / n_blocks;
  int64_t b = begin % n_blocks;
  for (int64_t i = begin; i < end; ++i, ++b) {
    if (b == n_blocks) {
      b = 0;
      ++row;
    }
    std::byte* out = args.out + row * PackedRowBytes(args.dim);
    int16_t q[kActivationBlock];
    const BlockScales scales = PackBlock(args.x + i * kActivationBlock, q);
    std::memcpy(out + b * 64, q, sizeof(q));
    std::memcpy(out + PackedScalesOffset(args.dim) + b * 4, &scales.scale, 4);
    std::memcpy(out + PackedSumsOffset(args.dim) + b * 4, &scales.scaled_sum,
                4);
    const CrossProducts cross = CrossProductsOf(q);
    std::memcpy(out + PackedCrossOffset(args.dim) + b * 8, &cross, 8);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(PackBlocks);

void PackActivations(const PackActivationsArgs& args, ThreadPool& pool) {
  constexpr int64_t kGrain = 256;  // blocks
  const int64_t n = args.n_rows * args.dim / kActivationBlock;
  pool.ParallelFor(n, kGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(PackBlocks)(args, begin, end);
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
