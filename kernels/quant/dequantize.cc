// Each element type has one plain function. They are the oracle of every other
// decoder.
#include "kernels/quant/dequantize.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/quant/dequantize_grid.h"
#include "kernels/quant/float16.h"
#include "kernels/quant/grid_form.h"
#include "kernels/quant/tables.h"

namespace plimsoll::kernels {
namespace {

template <class T>
T Read(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

float ReadF16(const std::byte* bytes) {
  return F32FromF16(Read<uint16_t>(bytes));
}

int Byte(const std::byte* bytes, int i) {
  return std::to_integer<int>(bytes[i]);
}

// f16 d; i8 q[32].
void DecodeQ80(const std::byte* block, float* out) {
  const float d = ReadF16(block);
  for (int e = 0; e < 32; ++e) {
    out[e] = d * static_cast<float>(Read<int8_t>(block + 2 + e));
  }
}

// Element e of 16 bytes of nibbles; the low nibbles are elements 0..15.
int Nibble(const std::byte* qs, int e) {
  return (Byte(qs, e % 16) >> (e < 16 ? 0 : 4)) & 15;
}

// 16 if bit e is set, else 0.
int Fifth(uint32_t bits, int e) { return ((bits >> e) & 1u) != 0 ? 16 : 0; }

// f16 d; u8 qs[16].
void DecodeQ40(const std::byte* block, float* out) {
  const float d = ReadF16(block);
  for (int e = 0; e < 32; ++e) {
    out[e] = d * static_cast<float>(Nibble(block + 2, e) - 8);
  }
}

// f16 d; f16 m; u8 qs[16].
void DecodeQ41(const std::byte* block, float* out) {
  const float d = ReadF16(block);
  const float m = ReadF16(block + 2);
  for (int e = 0; e < 32; ++e) {
    out[e] = d * static_cast<float>(Nibble(block + 4, e)) + m;
  }
}

// f16 d; u32 fifth bits; u8 qs[16].
void DecodeQ50(const std::byte* block, float* out) {
  const float d = ReadF16(block);
  const auto fifths = Read<uint32_t>(block + 2);
  for (int e = 0; e < 32; ++e) {
    const int q = Nibble(block + 6, e) | Fifth(fifths, e);
    out[e] = d * static_cast<float>(q - 16);
  }
}

// f16 d; f16 m; u32 fifth bits; u8 qs[16].
void DecodeQ51(const std::byte* block, float* out) {
  const float d = ReadF16(block);
  const float m = ReadF16(block + 2);
  const auto fifths = Read<uint32_t>(block + 4);
  for (int e = 0; e < 32; ++e) {
    const int q = Nibble(block + 8, e) | Fifth(fifths, e);
    out[e] = d * static_cast<float>(q) + m;
  }
}

// f16 d; f16 dmin; u8 scales[12]; for Q5_K u8 fifth bits[32], of which bit j is
// sub-block j's; u8 qs[128].
void DecodeK(const std::byte* block, bool has_fifths, float* out) {
  const std::byte* qs = block + (has_fifths ? 48 : 16);
  const float d = ReadF16(block);
  const float dmin = ReadF16(block + 2);
  const std::byte* s = block + 4;
  for (int j = 0; j < 8; ++j) {
    int scale;
    int min;
    if (j < 4) {
      scale = Byte(s, j) & 63;
      min = Byte(s, j + 4) & 63;
    } else {
      scale = (Byte(s, j + 4) & 15) | ((Byte(s, j - 4) >> 6) << 4);
      min = (Byte(s, j + 4) >> 4) | ((Byte(s, j) >> 6) << 4);
    }
    const float factor = d * static_cast<float>(scale);
    const float offset = dmin * static_cast<float>(min);
    for (int l = 0; l < 32; ++l) {
      int q = (Byte(qs, 32 * (j / 2) + l) >> (4 * (j % 2))) & 15;
      if (has_fifths) q |= ((Byte(block, 16 + l) >> j) & 1) << 4;
      out[32 * j + l] = factor * static_cast<float>(q) - offset;
    }
  }
}

// u8 ql[128]; u8 qh[64]; i8 scales[16]; f16 d.
void DecodeQ6K(const std::byte* block, float* out) {
  const float d = ReadF16(block + 208);
  for (int e = 0; e < 256; ++e) {
    const int h = e / 128;
    const int g = e % 128 / 32;
    const int l = e % 32;
    const int low =
        (Byte(block, 64 * h + l + 32 * (g & 1)) >> (g < 2 ? 0 : 4)) & 15;
    const int high = (Byte(block, 128 + 32 * h + l) >> (2 * g)) & 3;
    const auto scale = static_cast<float>(Read<int8_t>(block + 192 + e / 16));
    const int q = (low | (high << 4)) - 32;
    out[e] = d * scale * static_cast<float>(q);
  }
}

// The values of a block's nibbles, times `scale`.
void DecodeTable(const int8_t* table, const std::byte* qs, float scale,
                 float* out) {
  for (int e = 0; e < 32; ++e) {
    out[e] = scale * static_cast<float>(table[Nibble(qs, e)]);
  }
}

// u8 exponent; u8 qs[16].
void DecodeMxfp4(const std::byte* block, float* out) {
  DecodeTable(kDoubledE2M1, block + 1,
              HalfOfE8M0(std::to_integer<uint32_t>(block[0])), out);
}

// UE4M3 scales[4] of 16 elements each; u8 qs[4][8], whose low nibbles are the
// first eight.
void DecodeNvfp4(const std::byte* block, float* out) {
  for (int e = 0; e < 64; ++e) {
    const float scale = HalfOfUE4M3(std::to_integer<uint32_t>(block[e / 16]));
    const int both = Byte(block, 4 + e / 16 * 8 + e % 8);
    const int code = (both >> (e % 16 < 8 ? 0 : 4)) & 15;
    out[e] = scale * static_cast<float>(kDoubledE2M1[code]);
  }
}

// f16 d; u8 qs[16].
void DecodeIq4Nl(const std::byte* block, float* out) {
  DecodeTable(kIq4Values, block + 2, ReadF16(block), out);
}

// f16 d; u16 high bits of eight scales; u8 low bits[4]; u8 qs[128].
void DecodeIq4Xs(const std::byte* block, float* out) {
  const float d = ReadF16(block);
  const int high = Read<uint16_t>(block + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = (Byte(block, 4 + j / 2) >> (4 * (j % 2))) & 15;
    const int scale = (low | ((high >> (2 * j)) & 3) << 4) - 32;
    DecodeTable(kIq4Values, block + 8 + 16 * j, d * static_cast<float>(scale),
                out + 32 * j);
  }
}

// Element e of 64 bytes of bit pairs.
int BitPair(const std::byte* qs, int e) {
  return (Byte(qs, e / 128 * 32 + e % 32) >> (e % 128 / 32 * 2)) & 3;
}

// u8 scales[16], with the minimum in the high nibble; u8 qs[64]; f16 d; f16
// dmin.
void DecodeQ2K(const std::byte* block, float* out) {
  const float d = ReadF16(block + 80);
  const float dmin = ReadF16(block + 82);
  for (int e = 0; e < 256; ++e) {
    const int both = Byte(block, e / 16);
    const float factor = d * static_cast<float>(both & 15);
    const float offset = dmin * static_cast<float>(both >> 4);
    out[e] = factor * static_cast<float>(BitPair(block + 16, e)) - offset;
  }
}

// u8 third bits[32], of which bit j is sub-block j's; u8 qs[64]; u8 scales[12];
// f16 d.
void DecodeQ3K(const std::byte* block, float* out) {
  const float d = ReadF16(block + 108);
  const std::byte* s = block + 96;
  for (int e = 0; e < 256; ++e) {
    const int k = e / 16;
    const int low = (Byte(s, k % 8) >> (k < 8 ? 0 : 4)) & 15;
    const int high = (Byte(s, 8 + k % 4) >> (2 * (k / 4))) & 3;
    const int scale = (low | high << 4) - 32;
    const int third = (Byte(block, e % 32) >> (e / 32)) & 1;
    const int q = (BitPair(block + 32, e) | third << 2) - 4;
    out[e] = d * static_cast<float>(scale) * static_cast<float>(q);
  }
}

// u8 digits[52]; f16 d.
void DecodeTq10(const std::byte* block, float* out) {
  const float d = ReadF16(block + 52);
  for (int e = 0; e < 256; ++e) {
    const TernaryDigit at = TernaryDigitOf(e);
    const int rest = Byte(block, at.byte) * PowerOf3(at.digit) % 256;
    const int digit = rest * 3 / 256;
    out[e] = d * static_cast<float>(digit - 1);
  }
}

// u8 qs[64]; f16 d.
void DecodeTq20(const std::byte* block, float* out) {
  const float d = ReadF16(block + 64);
  for (int e = 0; e < 256; ++e) {
    out[e] = d * static_cast<float>(BitPair(block, e) - 1);
  }
}

void DecodeBlock(DType dtype, const std::byte* block, float* out) {
  if (IsGridType(dtype)) return DequantizeGridBlock(dtype, block, out);
  switch (dtype) {
    case DType::kF32:
      *out = Read<float>(block);
      return;
    case DType::kF16:
      *out = ReadF16(block);
      return;
    case DType::kBF16:
      *out = F32FromBf16(Read<uint16_t>(block));
      return;
    case DType::kQ8_0:
      return DecodeQ80(block, out);
    case DType::kQ4_0:
      return DecodeQ40(block, out);
    case DType::kQ4_1:
      return DecodeQ41(block, out);
    case DType::kQ5_0:
      return DecodeQ50(block, out);
    case DType::kQ5_1:
      return DecodeQ51(block, out);
    case DType::kQ4_K:
      return DecodeK(block, /*has_fifths=*/false, out);
    case DType::kQ5_K:
      return DecodeK(block, /*has_fifths=*/true, out);
    case DType::kQ6_K:
      return DecodeQ6K(block, out);
    case DType::kMxfp4:
      return DecodeMxfp4(block, out);
    case DType::kIq4Nl:
      return DecodeIq4Nl(block, out);
    case DType::kIq4Xs:
      return DecodeIq4Xs(block, out);
    case DType::kQ3_K:
      return DecodeQ3K(block, out);
    case DType::kQ2_K:
      return DecodeQ2K(block, out);
    case DType::kNvfp4:
      return DecodeNvfp4(block, out);
    case DType::kTq1_0:
      return DecodeTq10(block, out);
    case DType::kTq2_0:
      return DecodeTq20(block, out);
    default:
      return;  // DequantizeRow has refused it
  }
}

}  // namespace

bool IsWeightType(DType dtype) {
  if (IsGridType(dtype)) return true;
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kMxfp4:
    case DType::kIq4Nl:
    case DType::kIq4Xs:
    case DType::kQ3_K:
    case DType::kQ2_K:
    case DType::kNvfp4:
    case DType::kTq1_0:
    case DType::kTq2_0:
      return true;
    default:
      return false;
  }
}

absl::Status DequantizeRow(DType dtype, const std::byte* bytes, int64_t n,
                           float* out) {
  if (!IsWeightType(dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("weights of type ", DTypeName(dtype), " cannot be run"));
  }
  const DTypeInfo& info = InfoOf(dtype);
  if (n < 0 || n % info.block_elems != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(n, " elements are not whole ", info.name, " blocks"));
  }
  for (int64_t block = 0; block < n / info.block_elems; ++block) {
    DecodeBlock(dtype, bytes + block * info.block_bytes,
                out + block * info.block_elems);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels
