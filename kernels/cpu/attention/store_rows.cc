// Stores rows rounded to the cache's type, and copies rows as they are.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/store_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"
#include "kernels/quant/float16.h"
#include "kernels/quant/kv_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Rounds to nearest even, as the hardware's conversion does.
void StoreHalves(const float* x, int64_t n, std::byte* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SSE4  // which has no conversion of its own
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* halves = reinterpret_cast<hwy::float16_t*>(out);
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, x + i)), dh, halves + i);
  }
#endif
  for (; i < n; ++i) {
    const uint16_t half = F16FromF32(x[i]);
    std::memcpy(out + 2 * i, &half, 2);
  }
}

void StoreBf16(const float* x, int64_t n, std::byte* out) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto bits = hn::BitCast(du, v);
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), odd));
    const auto quiet = hn::Or(high, hn::Set(du, 0x40));
    const auto half =
        hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, half)), dh,
               reinterpret_cast<uint16_t*>(out) + i);
  }
  for (; i < n; ++i) {
    const uint16_t half = Bf16FromF32(x[i]);
    std::memcpy(out + 2 * i, &half, 2);
  }
}

// The extremes of a block.
struct Extent {
  float min;
  float max;
  bool is_finite;
};

Extent ExtentOf(const float* x) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  auto min = hn::LoadU(d, x);
  auto max = min;
  bool is_finite = true;
  for (int64_t i = 0; i < kKvBlock; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    is_finite &= hn::AllTrue(d, hn::Lt(hn::Abs(v), infinity));
    min = hn::Min(min, v);
    max = hn::Max(max, v);
  }
  return {hn::GetLane(hn::MinOfLanes(d, min)),
          hn::GetLane(hn::MaxOfLanes(d, max)), is_finite};
}

// Stores the block's scale `d`, or NaN. Returns whether levels follow.
bool StoreScale(float d, bool is_finite, std::byte* out) {
  const uint16_t scale =
      F16FromF32(is_finite ? d : std::numeric_limits<float>::quiet_NaN());
  std::memcpy(out, &scale, 2);
  return is_finite && (scale & 0x7FFF) != 0;
}

void StoreQ80(const float* x, std::byte* out) {
  const Extent extent = ExtentOf(x);
  const float scale = std::abs(std::max(extent.max, -extent.min)) / kQ80Max;
  std::memset(out, 0, kQ80Bytes);
  if (!StoreScale(scale, extent.is_finite, out)) return;
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 0.5f);
  const auto one = hn::Set(d, 1.0f);
  const auto inverse = hn::Set(d, 1.0f / scale);
  auto* const levels = reinterpret_cast<int8_t*>(out + 2);
  for (int64_t i = 0; i < kKvBlock; i += lanes) {
    const auto v = hn::Mul(hn::LoadU(d, x + i), inverse);
    const auto magnitude = hn::Abs(v);
    const auto below = hn::Floor(magnitude);
    // This compares with the half-way point; adding a half could round the sum
    // up.
    const auto is_up = hn::Ge(magnitude, hn::Add(below, half));
    const auto away = hn::Add(below, hn::IfThenElseZero(is_up, one));
    const auto q = hn::ConvertTo(di, hn::CopySignToAbs(away, v));
    hn::StoreU(hn::DemoteTo(db, q), db, levels + i);
  }
}

// How a block's values become levels: floor((x - from) * inverse + offset), at
// most `most`; none is negative.
struct Leveling {
  float from;
  float inverse;
  float offset;
  int32_t most;
};

void LevelsOf(const float* x, Leveling by, int32_t* levels) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < kKvBlock; i += lanes) {
    const auto above = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, by.from));
    const auto scaled = hn::Mul(above, hn::Set(d, by.inverse));
    const auto level =
        hn::ConvertTo(di, hn::Add(scaled, hn::Set(d, by.offset)));
    hn::StoreU(hn::Min(level, hn::Set(di, by.most)), di, levels + i);
  }
}

// Stores the low four bits of a block's levels.
void StoreNibbles(const int32_t* levels, std::byte* out) {
  constexpr int64_t kHalf = kKvBlock / 2;
  for (int64_t i = 0; i < kHalf; ++i) {
    out[i] = static_cast<std::byte>((levels[i] & 15) |
                                    ((levels[i + kHalf] & 15) << 4));
  }
}

void StoreQ40(const float* x, std::byte* out) {
  const Extent extent = ExtentOf(x);
  const float scale =
      (extent.max >= -extent.min ? extent.max : extent.min) / -8.0f;
  std::memset(out, 0, kQ40Bytes);
  if (!StoreScale(scale, extent.is_finite, out)) return;
  int32_t levels[kKvBlock];
  LevelsOf(x,
           {.from = 0.0f, .inverse = 1.0f / scale, .offset = 8.5f, .most = 15},
           levels);
  StoreNibbles(levels, out + 2);
}

void StoreQ51(const float* x, std::byte* out) {
  const Extent extent = ExtentOf(x);
  const float scale = (extent.max - extent.min) / 31.0f;
  std::memset(out, 0, kQ51Bytes);
  const uint16_t min = F16FromF32(extent.is_finite ? extent.min : 0.0f);
  std::memcpy(out + 2, &min, 2);
  if (!StoreScale(scale, extent.is_finite, out)) return;
  int32_t levels[kKvBlock];
  LevelsOf(
      x,
      {.from = extent.min, .inverse = 1.0f / scale, .offset = 0.5f, .most = 31},
      levels);
  uint32_t fifths = 0;
  for (int64_t i = 0; i < kKvBlock; ++i) {
    fifths |= static_cast<uint32_t>(levels[i] >> 4) << i;
  }
  std::memcpy(out + 4, &fifths, 4);
  StoreNibbles(levels, out + 8);
}

// Calls store(x, out) for each block of a row.
template <class Store>
void StoreBlocks(const float* x, int64_t n, DType dtype, std::byte* out,
                 const Store& store) {
  for (int64_t at = 0; at < n; at += kKvBlock) {
    store(x + at, out + KvBytes(dtype, at));
  }
}

}  // namespace

void StoreRow(const float* x, int64_t n, DType dtype, std::byte* out) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kBF16:
      return StoreBf16(x, n, out);
    case DType::kQ8_0:
      return StoreBlocks(x, n, dtype, out, StoreQ80);
    case DType::kQ5_1:
      return StoreBlocks(x, n, dtype, out, StoreQ51);
    case DType::kQ4_0:
      return StoreBlocks(x, n, dtype, out, StoreQ40);
    default:
      return StoreHalves(x, n, out);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(StoreRow);

void StoreRows(const StoreRowsArgs& args, ThreadPool& pool) {
  const int64_t grain = RowGrain(args.dim);
  pool.ParallelFor(args.n_rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(StoreRow)
      (args.x + r * args.dim, args.dim, args.dtype,
       args.base + args.offsets[r]);
    }
  });
}

void CopyRows(const CopyRowsArgs& args, ThreadPool& pool) {
  const int64_t grain = RowGrain(args.row_bytes / 4);
  pool.ParallelFor(args.n_rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(args.dst + args.dst_offsets[r],
                  args.src + args.src_offsets[r],
                  static_cast<size_t>(args.row_bytes));
    }
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
