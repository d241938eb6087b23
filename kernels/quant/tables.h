// Values of four-bit codes, scales of eight bits, and powers of three.
#ifndef PLIMSOLL_KERNELS_QUANT_TABLES_H_
#define PLIMSOLL_KERNELS_QUANT_TABLES_H_

#include <bit>
#include <cstdint>

namespace plimsoll::kernels {

// Twice the values of E2M1, the codes of MXFP4 and NVFP4. Both zeros are 0.
// Source: OCP Microscaling Formats (MX) Specification 1.0, 5.3.3.
alignas(16) inline constexpr int8_t kDoubledE2M1[16] = {
    0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The values of IQ4_NL's and IQ4_XS's codes.
// Source: the GGUF specification's block layouts.
alignas(16) inline constexpr int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The bits of the float32 2^(e - 128), half of what the exponent e in [0, 255]
// of E8M0 means. It goes with doubled values. 255 is no NaN here, because
// engines that write such files read it as a number.
constexpr uint32_t BitsOfHalfE8M0(uint32_t e) {
  return e < 2 ? 0x00200000u << e : (e - 1) << 23;
}
inline float HalfOfE8M0(uint32_t e) {
  return std::bit_cast<float>(BitsOfHalfE8M0(e));
}

// Half of what the UE4M3 number x in [0, 255] means: four bits of an exponent
// with bias 7, then three of a mantissa. It goes with doubled values. The top
// bit means nothing, and 0x7F, which would be NaN, is 0, because engines that
// write such files read it so.
constexpr float HalfOfUE4M3(uint32_t x) {
  if (x == 0x7F) return 0;
  const uint32_t exponent = (x >> 3) & 15u;
  const auto mantissa = static_cast<float>(x & 7u);
  if (exponent == 0) return mantissa * 0x1p-10f;
  return (mantissa + 8) * 0x1p-11f * static_cast<float>(1u << exponent);
}

// TQ1_0 has up to five digits {0, 1, 2} in a byte, which is a fraction of 256
// in base 3. Times PowerOf3(n), modulo 256, it begins with its digit n; the
// first digit of b is 3 b / 256.
constexpr int PowerOf3(int n) {
  return static_cast<int>((uint64_t{0x511B090301} >> (8 * n)) & 0xFF);
}

// Where a block of TQ1_0 has the digit of a column in [0, 256). The columns
// [4 k, 4 k + 4) are one digit of four bytes in a row.
struct TernaryDigit {
  int byte;
  int digit;
};
constexpr TernaryDigit TernaryDigitOf(int column) {
  if (column < 160) return {column % 32, column / 32};
  if (column < 240) return {32 + column % 16, (column - 160) / 16};
  return {48 + column % 4, (column - 240) / 4};
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_TABLES_H_
