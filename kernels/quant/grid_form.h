// Where the types IQ1, IQ2 and IQ3 have their parts in a block of the file, and
// what they have in common. Quants are points of lattices (grids.h): 32 columns
// take four entries of eight columns, or eight entries of four.
#ifndef PLIMSOLL_KERNELS_QUANT_GRID_FORM_H_
#define PLIMSOLL_KERNELS_QUANT_GRID_FORM_H_

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll::kernels {

// Word k of the columns [32 j, 32 j + 32) is at offset + j * stride.
struct GridWords {
  int offset;
  int stride;
};
struct GridBytes {
  int offset;
  int n;
};

// Source: the GGUF specification's block layouts.
struct GridForm {
  int d;               // offset of the f16 scale; -1: it is among `bytes`
  int n_words;         // u32 words for 32 columns
  GridWords words[3];  // indices, then signs if there are any
  GridBytes bytes[2];  // what the block has beside, in one sequence

  constexpr int NumBytes() const { return bytes[0].n + bytes[1].n; }
  // The offset of byte i of the sequence.
  constexpr int ByteAt(int i) const {
    return i < bytes[0].n ? bytes[0].offset + i
                          : bytes[1].offset + i - bytes[0].n;
  }
};

constexpr bool IsGridType(DType dtype) {
  switch (dtype) {
    case DType::kIq2Xxs:
    case DType::kIq2Xs:
    case DType::kIq2S:
    case DType::kIq3Xxs:
    case DType::kIq3S:
    case DType::kIq1S:
    case DType::kIq1M:
      return true;
    default:
      return false;
  }
}

// `dtype` is a grid type.
constexpr GridForm GridFormOf(DType dtype) {
  switch (dtype) {
    case DType::kIq2Xxs:  // d, 8 x {u8 index[4], u32 signs and scale}
      return {0, 2, {{2, 8}, {6, 8}, {}}, {}};
    case DType::kIq2Xs:  // d, u16 index and signs[32], u8 scales[8]
      return {0, 2, {{2, 8}, {6, 8}, {}}, {{66, 8}, {}}};
    case DType::kIq2S:  // d, u8 index[32], signs[32], high[8], scales[8]
      return {0, 2, {{2, 4}, {34, 4}, {}}, {{66, 16}, {}}};
    case DType::kIq3Xxs:  // d, u8 index[64], u32 signs and scale[8]
      return {0, 3, {{2, 8}, {6, 8}, {66, 4}}, {}};
    case DType::kIq3S:  // d, u8 index[64], high[8], signs[32], scales[4]
      return {0, 3, {{2, 8}, {6, 8}, {74, 4}}, {{66, 8}, {106, 4}}};
    case DType::kIq1S:  // d, u8 index[32], u16 high, delta and scale[8]
      return {0, 1, {{2, 4}, {}, {}}, {{34, 16}, {}}};
    default:  // IQ1_M: u8 index[32], high and delta[16], scales[8]
      return {-1, 1, {{0, 4}, {}, {}}, {{32, 24}, {}}};
  }
}

// The signs of eight columns from seven bits: the last one makes the number of
// minus signs even.
constexpr uint32_t SignsOf(uint32_t seven) {
  uint32_t parity = seven ^ (seven >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1u) << 7;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_GRID_FORM_H_
