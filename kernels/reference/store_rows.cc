// Reference: rows rounded to the cache's type, and rows copied as they are.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quant/float16.h"
#include "kernels/quant/kv_row.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

namespace {

void StoreQ80(const float* x, std::byte* out) {
  float amax = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < kQ80Elements; ++i) {
    amax = std::max(amax, std::abs(x[i]));
    is_finite = is_finite && std::isfinite(x[i]);
  }
  const float d =
      is_finite ? amax / kQ80Max : std::numeric_limits<float>::quiet_NaN();
  const uint16_t scale = F16FromF32(d);
  std::memcpy(out, &scale, 2);
  std::memset(out + 2, 0, kQ80Elements);
  if (scale == 0 || !is_finite) return;
  const float inverse = 1.0f / d;
  for (int64_t i = 0; i < kQ80Elements; ++i) {
    const auto q = static_cast<int8_t>(std::round(x[i] * inverse));
    std::memcpy(out + 2 + i, &q, 1);
  }
}

void StoreRow(const float* x, int64_t n, DType dtype, std::byte* out) {
  if (dtype == DType::kQ8_0) {
    for (int64_t b = 0; b < n / kQ80Elements; ++b) {
      StoreQ80(x + b * kQ80Elements, out + b * kQ80Bytes);
    }
    return;
  }
  for (int64_t c = 0; c < n; ++c) {
    if (dtype == DType::kF32) {
      std::memcpy(out + c * 4, &x[c], 4);
    } else {
      const uint16_t half =
          dtype == DType::kF16 ? F16FromF32(x[c]) : Bf16FromF32(x[c]);
      std::memcpy(out + c * 2, &half, 2);
    }
  }
}

}  // namespace

void StoreRows(const StoreRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    StoreRow(args.x + r * args.dim, args.dim, args.dtype,
             args.base + args.offsets[r]);
  }
}

void CopyRows(const CopyRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    std::memcpy(args.dst + args.dst_offsets[r], args.src + args.src_offsets[r],
                static_cast<size_t>(args.row_bytes));
  }
}

}  // namespace plimsoll::kernels::reference
