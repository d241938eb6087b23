#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/quant/float16.h"
#include "kernels/quant/quantize_k.h"

namespace plimsoll::kernels {
namespace {

constexpr uint16_t kF16Infinity = 0x7C00;
constexpr uint16_t kBf16Infinity = 0x7F80;

template <class T>
void Write(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof(value));
}

// Writes `bits`, which a 16-bit type has of a finite value. Returns false if
// they are infinite.
bool WriteFinite(std::byte* out, uint16_t bits, uint16_t infinity) {
  Write(out, bits);
  return (bits & 0x7FFF) != infinity;
}

// 1 / d, or 0 where that is infinite. Then d is 0 as a float16, too.
float Inverse(float d) {
  const float inverse = d != 0 ? 1 / d : 0;
  return std::isfinite(inverse) ? inverse : 0;
}

// f16 d; i8 q[32].
bool EncodeQ80(const float* x, std::byte* out) {
  float largest = 0;
  for (int e = 0; e < 32; ++e) largest = std::max(largest, std::abs(x[e]));
  const float d = largest / 127;
  const float inverse = Inverse(d);
  for (int e = 0; e < 32; ++e) {
    Write(out + 2 + e, static_cast<int8_t>(std::round(x[e] * inverse)));
  }
  return WriteFinite(out, F16FromF32(d), kF16Infinity);
}

// f16 d; u8 qs[16], of which the low nibbles are elements 0..15.
bool EncodeQ40(const float* x, std::byte* out) {
  float extreme = 0;  // the first one of the largest magnitude
  for (int e = 0; e < 32; ++e) {
    if (std::abs(x[e]) > std::abs(extreme)) extreme = x[e];
  }
  const float d = extreme / -8;
  const float inverse = Inverse(d);
  const auto quant = [&](int e) {
    return std::min(static_cast<int>(x[e] * inverse + 8.5f), 15);
  };
  for (int e = 0; e < 16; ++e) {
    out[2 + e] = static_cast<std::byte>(quant(e) | quant(e + 16) << 4);
  }
  return WriteFinite(out, F16FromF32(d), kF16Infinity);
}

// Writes one block. Returns false if a value is too large for the type.
bool EncodeBlock(DType dtype, const float* x, std::byte* out) {
  switch (dtype) {
    case DType::kF16:
      return WriteFinite(out, F16FromF32(*x), kF16Infinity);
    case DType::kBF16:
      return WriteFinite(out, Bf16FromF32(*x), kBf16Infinity);
    case DType::kQ8_0:
      return EncodeQ80(x, out);
    case DType::kQ4_0:
      return EncodeQ40(x, out);
    case DType::kQ4_K:
      return QuantizeQ4K(x, out);
    case DType::kQ6_K:
      return QuantizeQ6K(x, out);
    default:
      Write(out, *x);
      return true;
  }
}

}  // namespace

bool IsQuantizable(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

absl::Status QuantizeRow(DType dtype, const float* x, int64_t n,
                         std::byte* out) {
  const DTypeInfo& info = InfoOf(dtype);
  if (!IsQuantizable(dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("weights cannot be written as ", info.name));
  }
  if (n < 0 || n % info.block_elems != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(n, " elements are not whole ", info.name, " blocks"));
  }
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(x[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the value in column ", i, " is not finite"));
  }
  for (int64_t i = 0; i < n; i += info.block_elems) {
    if (EncodeBlock(dtype, x + i, out)) {
      out += info.block_bytes;
      continue;
    }
    return absl::OutOfRangeError(absl::StrCat(
        "a value from column ", i, " on is too large for ", info.name));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels
