// Quants of the types IQ1, IQ2 and IQ3, which are points of lattices: a row's
// part of a tile, and four of its columns at a time.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_GRIDS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_GRIDS_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/weight_layout.h"
#include "kernels/quant/grid_form.h"
#include "kernels/quant/grids.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The tables in the device's memory.
[[maybe_unused]] __device__ constexpr auto kDeviceIq2Xxs = kIq2XxsGrid;
[[maybe_unused]] __device__ constexpr auto kDeviceIq2Xs = kIq2XsGrid;
[[maybe_unused]] __device__ constexpr auto kDeviceIq2S = kIq2SGrid;
[[maybe_unused]] __device__ constexpr auto kDeviceIq3Xxs = kIq3XxsGrid;
[[maybe_unused]] __device__ constexpr auto kDeviceIq3S = kIq3SGrid;
[[maybe_unused]] __device__ constexpr auto kDeviceIq1 = kIq1Grid;

template <DType kType>
__device__ uint32_t GridEntry(uint32_t index) {
  if constexpr (kType == DType::kIq2Xxs) {
    return static_cast<uint32_t>(kDeviceIq2Xxs[index]);
  } else if constexpr (kType == DType::kIq2Xs) {
    return static_cast<uint32_t>(kDeviceIq2Xs[index]);
  } else if constexpr (kType == DType::kIq2S) {
    return static_cast<uint32_t>(kDeviceIq2S[index]);
  } else if constexpr (kType == DType::kIq3Xxs) {
    return static_cast<uint32_t>(kDeviceIq3Xxs[index]);
  } else if constexpr (kType == DType::kIq3S) {
    return static_cast<uint32_t>(kDeviceIq3S[index]);
  } else {
    return static_cast<uint32_t>(kDeviceIq1[index]);
  }
}

// A row's part of a tile (quant/grid_form.h), and of the tile's block.
struct GridRow {
  uint32_t words[3];
  uint32_t bytes[6];  // four in a word
  uint32_t d;         // f16; unused if `bytes` has it

  __device__ uint32_t Byte(int i) const {
    uint32_t word = bytes[0];
    // A choice keeps the words in registers.
    for (int k = 1; k < 6; ++k) word = i / 4 == k ? bytes[k] : word;
    return (word >> (8 * (i % 4))) & 0xFFu;
  }
  __device__ uint32_t Half(int i) const { return Byte(i) | (Byte(i + 1) << 8); }
};

constexpr bool IsIq1(DType type) {
  return type == DType::kIq1S || type == DType::kIq1M;
}
constexpr bool IsIq3(DType type) {
  return type == DType::kIq3Xxs || type == DType::kIq3S;
}

// The index of the entry with columns 16 half + 4 t ... of tile `sub`.
template <DType kType>
__device__ uint32_t GridIndex(const GridRow& row, int sub, int half, int t) {
  const int e = 2 * half + t / 2;  // the entry of eight columns
  if constexpr (kType == DType::kIq2Xs) {
    return (row.words[half] >> (16 * (t / 2))) & 511u;
  } else if constexpr (kType == DType::kIq3Xxs) {
    return (row.words[half] >> (8 * t)) & 255u;
  } else if constexpr (kType == DType::kIq3S) {
    const uint32_t high = row.Byte(sub) >> (4 * half + t);
    return ((row.words[half] >> (8 * t)) & 255u) | ((high & 1u) << 8);
  } else {
    uint32_t high = 0;
    if constexpr (kType == DType::kIq2S) {
      high = (row.Byte(sub) >> (2 * e)) & 3u;
    } else if constexpr (IsIq1(kType)) {
      constexpr int kStep = kType == DType::kIq1S ? 3 : 4;
      high = (row.Half(2 * sub) >> (kStep * e)) & 7u;
    }
    return ((row.words[0] >> (8 * e)) & 255u) | (high << 8);
  }
}

// The signs of these columns, or of their deltas, in four bits.
template <DType kType>
__device__ uint32_t GridSigns(const GridRow& row, int sub, int half, int t) {
  const int e = 2 * half + t / 2;
  if constexpr (kType == DType::kIq2Xs) {
    const uint32_t seven = (row.words[half] >> (16 * (t / 2) + 9)) & 127u;
    return SignsOf(seven) >> (4 * (t % 2));
  } else if constexpr (kType == DType::kIq2Xxs || kType == DType::kIq3Xxs) {
    const uint32_t all = row.words[IsIq3(kType) ? 2 : 1];
    return SignsOf((all >> (7 * e)) & 127u) >> (4 * (t % 2));
  } else if constexpr (IsIq1(kType)) {
    const int bit = kType == DType::kIq1S ? 15 : 4 * e + 3;
    return ((row.Half(2 * sub) >> bit) & 1u) * 15u;
  } else {
    return row.words[IsIq3(kType) ? 2 : 1] >> (16 * half + 4 * t);
  }
}

// The quants of columns 16 half + 4 t ... of tile `sub`, four signed bytes.
template <DType kType>
__device__ uint32_t GridQuants(const GridRow& row, int sub, int half, int t) {
  constexpr uint32_t kOnes = 0x01010101u;
  const uint32_t entry = GridEntry<kType>(GridIndex<kType>(row, sub, half, t));
  const uint32_t bits = GridSigns<kType>(row, sub, half, t) & 15u;
  const uint32_t negative = (bits * 0x00204081u) & kOnes;
  uint32_t codes;
  if constexpr (IsIq3(kType)) {
    codes = (entry & 0xFu) | ((entry & 0xF0u) << 4) | ((entry & 0xF00u) << 8) |
            ((entry & 0xF000u) << 12);
  } else {
    const uint32_t four = entry >> (8 * (t % 2));
    codes = (four & 3u) | ((four & 0xCu) << 6) | ((four & 0x30u) << 12) |
            ((four & 0xC0u) << 18);
  }
  if constexpr (IsIq1(kType)) {
    // 8 (c - 1) + 1, or - 1. Each byte has 128 more until the end, so that no
    // byte borrows.
    return (0x79u * kOnes + (codes << 3) - (negative << 1)) ^ 0x80808080u;
  } else {
    uint32_t value;
    if constexpr (kType == DType::kIq3S) {
      value = kOnes + (codes << 1);
    } else if constexpr (kType == DType::kIq3Xxs) {
      const uint32_t is_last = ((codes + kOnes) >> 3) & kOnes;
      value = 4u * kOnes + (codes << 3) + (is_last << 1);
    } else {
      value = 8u * kOnes + codes * 17u + ((codes >> 1) & kOnes);
    }
    return (value ^ (negative * 255u)) + negative;
  }
}

// The scale of half of the columns of tile `sub`.
template <DType kType>
__device__ float GridScale(const GridRow& row, int sub, int half) {
  uint32_t d = row.d;
  uint32_t s;
  if constexpr (kType == DType::kIq2Xxs || kType == DType::kIq3Xxs) {
    s = row.words[IsIq3(kType) ? 2 : 1] >> 28;
  } else if constexpr (kType == DType::kIq2Xs || kType == DType::kIq2S) {
    const int at = kType == DType::kIq2S ? 8 : 0;
    s = (row.Byte(at + sub) >> (4 * half)) & 15u;
  } else if constexpr (kType == DType::kIq3S) {
    s = (row.Byte(8 + sub / 2) >> (4 * (sub % 2))) & 15u;
  } else if constexpr (kType == DType::kIq1S) {
    s = (row.Half(2 * sub) >> 12) & 7u;
  } else {
    s = (row.Half(16 + sub / 2 * 2) >> (6 * (sub % 2) + 3 * half)) & 7u;
    // The scale d is in the top four bits of the four u16 of scales.
    d = 0;
    for (int i = 0; i < 4; ++i) d |= (row.Half(16 + 2 * i) >> 12) << (4 * i);
  }
  constexpr float kUnit = kType == DType::kIq3S     ? 1.0f
                          : kType == DType::kIq3Xxs ? 0.25f
                                                    : 0.125f;
  return FloatOfHalf(static_cast<uint16_t>(d)) * kUnit *
         static_cast<float>(2 * s + 1);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_GRIDS_CUH_
