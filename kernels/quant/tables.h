// Values of four-bit codes, and scales that are powers of two.
#ifndef PLIMSOLL_KERNELS_QUANT_TABLES_H_
#define PLIMSOLL_KERNELS_QUANT_TABLES_H_

#include <bit>
#include <cstdint>

namespace plimsoll::kernels {

// Twice the values of E2M1, MXFP4's codes. Both zeros are 0.
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

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_TABLES_H_
