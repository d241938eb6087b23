// Stores rows rounded to the cache's type, and copies rows as they are.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/store_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
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

// Stores the values of a block of q8_0 whose inverse scale is finite.
void StoreQuants(const float* x, float inverse, std::byte* out) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 0.5f);
  const auto one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < kQ80Elements; i += lanes) {
    const auto v = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inverse));
    const auto magnitude = hn::Abs(v);
    const auto below = hn::Floor(magnitude);
    // This compares with the half-way point; adding a half could round the sum
    // up.
    const auto is_up = hn::Ge(magnitude, hn::Add(below, half));
    const auto away = hn::Add(below, hn::IfThenElseZero(is_up, one));
    const auto q = hn::ConvertTo(di, hn::CopySignToAbs(away, v));
    hn::StoreU(hn::DemoteTo(db, q), db, reinterpret_cast<int8_t*>(out) + i);
  }
}

void StoreQ80(const float* x, int64_t n, std::byte* out) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  for (; n > 0; n -= kQ80Elements, x += kQ80Elements, out += kQ80Bytes) {
    auto v_max = hn::Zero(d);
    bool is_finite = true;
    for (int64_t i = 0; i < kQ80Elements; i += lanes) {
      const auto magnitude = hn::Abs(hn::LoadU(d, x + i));
      is_finite &= hn::AllTrue(d, hn::Lt(magnitude, infinity));
      v_max = hn::Max(v_max, magnitude);
    }
    const float scale = hn::GetLane(hn::MaxOfLanes(d, v_max)) / kQ80Max;
    const uint16_t stored =
        F16FromF32(is_finite ? scale : std::numeric_limits<float>::quiet_NaN());
    std::memcpy(out, &stored, 2);
    if (stored == 0 || !is_finite) {
      std::memset(out + 2, 0, kQ80Elements);
    } else {
      StoreQuants(x, 1.0f / scale, out + 2);
    }
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
      return StoreQ80(x, n, out);
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
