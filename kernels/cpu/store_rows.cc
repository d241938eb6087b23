// Rows rounded to the cache's type, and rows copied as they are.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/store_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"
#include "kernels/reference/float16.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(StoreHalves);

void StoreRows(const StoreRowsArgs& args, ThreadPool& pool) {
  const int64_t grain = RowGrain(args.dim);
  pool.ParallelFor(args.n_rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.x + r * args.dim;
      std::byte* out = args.base + args.offsets[r];
      if (args.dtype == DType::kF32) {
        std::memcpy(out, x, static_cast<size_t>(args.dim) * sizeof(float));
      } else {
        HWY_DYNAMIC_DISPATCH(StoreHalves)(x, args.dim, out);
      }
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
