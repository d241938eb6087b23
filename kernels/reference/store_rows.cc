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

// The extremes of a block.
struct Extent {
  float min;
  float max;
  bool is_finite;
};

Extent ExtentOf(const float* x) {
  Extent extent = {x[0], x[0], true};
  for (int64_t i = 0; i < kKvBlock; ++i) {
    extent.min = std::min(extent.min, x[i]);
    extent.max = std::max(extent.max, x[i]);
    extent.is_finite = extent.is_finite && std::isfinite(x[i]);
  }
  return extent;
}

// Stores the block's scale `d`, or NaN. Returns whether levels follow.
bool StoreScale(float d, bool is_finite, std::byte* out) {
  const uint16_t scale =
      F16FromF32(is_finite ? d : std::numeric_limits<float>::quiet_NaN());
  std::memcpy(out, &scale, 2);
  return is_finite && F32FromF16(scale) != 0;
}

void StoreQ80(const float* x, std::byte* out) {
  const Extent extent = ExtentOf(x);
  const float d = std::abs(std::max(extent.max, -extent.min)) / kQ80Max;
  std::memset(out, 0, kQ80Bytes);
  if (!StoreScale(d, extent.is_finite, out)) return;
  const float inverse = 1.0f / d;
  for (int64_t i = 0; i < kKvBlock; ++i) {
    const auto q = static_cast<int8_t>(std::round(x[i] * inverse));
    std::memcpy(out + 2 + i, &q, 1);
  }
}

// Adds the low four bits of element i's level to its nibble.
void AddNibble(int64_t i, uint32_t level, std::byte* nibbles) {
  constexpr int64_t kHalf = kKvBlock / 2;
  nibbles[i % kHalf] |=
      static_cast<std::byte>((level & 15) << (i < kHalf ? 0 : 4));
}

void StoreQ40(const float* x, std::byte* out) {
  const Extent extent = ExtentOf(x);
  const float d = (extent.max >= -extent.min ? extent.max : extent.min) / -8.0f;
  std::memset(out, 0, kQ40Bytes);
  if (!StoreScale(d, extent.is_finite, out)) return;
  const float inverse = 1.0f / d;
  for (int64_t i = 0; i < kKvBlock; ++i) {
    const float level = std::floor(x[i] * inverse + 8.5f);
    AddNibble(i, static_cast<uint32_t>(std::min(level, 15.0f)), out + 2);
  }
}

void StoreQ51(const float* x, std::byte* out) {
  const Extent extent = ExtentOf(x);
  const float d = (extent.max - extent.min) / 31.0f;
  std::memset(out, 0, kQ51Bytes);
  const uint16_t min = F16FromF32(extent.is_finite ? extent.min : 0.0f);
  std::memcpy(out + 2, &min, 2);
  if (!StoreScale(d, extent.is_finite, out)) return;
  const float inverse = 1.0f / d;
  uint32_t fifths = 0;
  for (int64_t i = 0; i < kKvBlock; ++i) {
    const auto level =
        static_cast<uint32_t>(std::floor((x[i] - extent.min) * inverse + 0.5f));
    AddNibble(i, level, out + 8);
    fifths |= (level / 16) << i;
  }
  std::memcpy(out + 4, &fifths, 4);
}

// Calls store(x, out) for each block of a row.
template <class Store>
void StoreBlocks(const float* x, int64_t n, DType dtype, std::byte* out,
                 const Store& store) {
  for (int64_t at = 0; at < n; at += kKvBlock) {
    store(x + at, out + KvBytes(dtype, at));
  }
}

void StoreRow(const float* x, int64_t n, DType dtype, std::byte* out) {
  switch (dtype) {
    case DType::kQ8_0:
      return StoreBlocks(x, n, dtype, out, StoreQ80);
    case DType::kQ5_1:
      return StoreBlocks(x, n, dtype, out, StoreQ51);
    case DType::kQ4_0:
      return StoreBlocks(x, n, dtype, out, StoreQ40);
    default:
      break;
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
