// Tiles of weights as operands in F16, with few instructions where a type's
// scales are F16 numbers that need no arithmetic. The values are those of
// Rounded(Unpack()).
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_TILES_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_TILES_CUH_

#include "kernels/cuda/mat_mul/half_products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Both halves of a pair get its low, or its high half.
__device__ inline uint32_t TwiceLow(uint32_t pair) {
  return PickBytes(pair, pair, 0x1010u);
}
__device__ inline uint32_t TwiceHigh(uint32_t pair) {
  return PickBytes(pair, pair, 0x3232u);
}

// (word & kMask) | 0x64006400 in one instruction, which the compiler makes two
// of.
template <uint32_t kMask>
__device__ uint32_t MaskedAndBiased(uint32_t word) {
  constexpr uint32_t kBias = 0x64006400u;
#ifdef PLIMSOLL_CUDA_EMULATED
  return (word & kMask) | kBias;
#else
  uint32_t biased;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;"
      : "=r"(biased)
      : "r"(word), "n"(kMask), "n"(kBias));
  return biased;
#endif
}

// What four bits of each half of `word`, from kShift (0 or 4) on, are in F16,
// minus kZero; exact. 0x6400 | b is 1024 + b.
template <int kShift, int kZero>
__device__ uint32_t PairOfNibbles(uint32_t word) {
  static_assert(kZero == 0 || kZero == 8);
  const uint32_t biased = MaskedAndBiased<0x000F000Fu << kShift>(word);
  if constexpr (kShift == 0) {
    constexpr uint32_t kMinus = kZero == 8 ? 0xE408E408u : 0xE400E400u;
    return FmaPairs(biased, 0x3C003C00u, kMinus);  // - 1024 - kZero
  } else {
    // The number is 1024 + 16 b.
    constexpr uint32_t kMinus = kZero == 8 ? 0xD480D480u : 0xD400D400u;
    return FmaPairs(biased, 0x2C002C00u, kMinus);  // / 16 - 64 - kZero
  }
}

// What the tiles of a block of columns share, prepared once for all of them.
template <DType kType>
struct BlockScales {
  __device__ explicit BlockScales(const RawTile<kType>& /*raw*/) {}
};

// The scales and minima of Q4_K and Q5_K. `lows` has the low four bits of
// scales in the low half of a word and those of minima in the high half, four
// tiles in a word; `highs` has their high two bits in the same places.
template <DType kType>
requires(kType == DType::kQ4_K ||
         kType == DType::kQ5_K) struct BlockScales<kType> {
  uint32_t lows[2][2];  // of rows g and g + 8
  uint32_t highs[2][2];
  uint32_t unit[2];  // d and -m

  __device__ explicit BlockScales(const RawTile<kType>& raw) {
    constexpr uint32_t kTwoBits = 0x33333333u;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint32_t scale = raw.subscales[row];
      const uint32_t minimum = raw.subscales[2 + row];
      const uint32_t high = raw.subscales[4 + row];
      lows[row][0] = LowHalves(scale, minimum);
      lows[row][1] = HighHalves(scale, minimum);
      const uint32_t of_scale = high & kTwoBits;
      const uint32_t of_minimum = (high >> 2) & kTwoBits;
      highs[row][0] = LowHalves(of_scale, of_minimum);
      highs[row][1] = HighHalves(of_scale, of_minimum);
      unit[row] = raw.scales[row] ^ 0x80000000u;
    }
  }

  // The scale and the offset of tile `sub` in a row, rounded once.
  __device__ uint32_t Of(int row, int sub) const {
    const uint32_t low = lows[row][sub / 4] >> (4 * (sub % 4));
    const uint32_t high =
        ((highs[row][sub / 4] >> (4 * (sub % 4))) << 4) & 0x00300030u;
    const uint32_t biased = MaskedAndBiased<0x000F000Fu>(low) | high;
    return MultiplyPairs(FmaPairs(biased, 0x3C003C00u, 0xE400E400u), unit[row]);
  }
};

// Rounds a row's half: `even` and `odd` are exact pairs of quants.
__device__ inline void SetScaled(HalfTile& tile, int row, int half,
                                 uint32_t even, uint32_t odd, uint32_t scale) {
  tile.Set(row, half, MultiplyPairs(even, scale), MultiplyPairs(odd, scale));
}
__device__ inline void SetScaled(HalfTile& tile, int row, int half,
                                 uint32_t even, uint32_t odd, uint32_t scale,
                                 uint32_t offset) {
  tile.Set(row, half, FmaPairs(even, scale, offset),
           FmaPairs(odd, scale, offset));
}

// Rounds the tile `sub` of a block.
template <DType kType>
__device__ HalfTile RoundTile(const RawTile<kType>& raw,
                              const BlockScales<kType>& scales, int sub) {
  [[maybe_unused]] HalfTile rounded = {};
  if constexpr (kType == DType::kQ4_0 || kType == DType::kQ8_0) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint32_t scale =
          row == 0 ? TwiceLow(raw.scales[0]) : TwiceHigh(raw.scales[0]);
      if constexpr (kType == DType::kQ4_0) {
        const uint32_t word = raw.quants[row];
        const uint32_t odds = word >> 8;
        SetScaled(rounded, row, 0, PairOfNibbles<0, 8>(word),
                  PairOfNibbles<0, 8>(odds), scale);
        SetScaled(rounded, row, 1, PairOfNibbles<4, 8>(word),
                  PairOfNibbles<4, 8>(odds), scale);
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t word = raw.quants[2 * half + row];
          SetScaled(rounded, row, half, PairOfBytes<true, 0, 2>(word),
                    PairOfBytes<true, 1, 3>(word), scale);
        }
      }
    }
    return rounded;
  } else if constexpr (kType == DType::kQ4_K || kType == DType::kQ5_K) {
    uint32_t quants[4];
    if constexpr (kType == DType::kQ5_K) UnpackQuants(raw, quants);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint32_t both = scales.Of(row, sub);
      const uint32_t scale = TwiceLow(both);
      const uint32_t offset = TwiceHigh(both);
      if constexpr (kType == DType::kQ4_K) {
        const uint32_t word = raw.quants[row];
        const uint32_t odds = word >> 8;
        SetScaled(rounded, row, 0, PairOfNibbles<0, 0>(word),
                  PairOfNibbles<0, 0>(odds), scale, offset);
        SetScaled(rounded, row, 1, PairOfNibbles<4, 0>(word),
                  PairOfNibbles<4, 0>(odds), scale, offset);
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t word = quants[2 * half + row];
          SetScaled(rounded, row, half, PairOfBytes<false, 0, 2>(word),
                    PairOfBytes<false, 1, 3>(word), scale, offset);
        }
      }
    }
    return rounded;
  } else {
    return Rounded<kType>(Unpack(raw, sub));
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_TILES_CUH_
