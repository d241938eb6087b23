// Tiles of weights as operands in F16, with few instructions for types whose
// scales can be made in F16 with one rounding. The values are those of
// Rounded(Unpack()): a weight is rounded once, and so is a scale that is a
// product.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_TILES_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_TILES_CUH_

#include "kernels/cuda/mat_mul/half_products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// ---- Quants ----------------------------------------------------------------

// (word & kMask) | 0x64006400 in one instruction; the compiler would use two.
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

inline constexpr uint32_t kOnePair = 0x3C003C00u;
inline constexpr uint32_t kSixteenthPair = 0x2C002C00u;

// A pair of -1024 - kZero. The bits of such numbers up to 2,048 are 0xE400 plus
// the integer.
template <int kZero>
inline constexpr uint32_t kBiasAndZero = 0xE400E400u + kZero * 0x00010001u;

// The low (kShift 0) or high nibbles (4) of the even bytes of a word in F16,
// minus kZero; exact. 0x6400 | b is 1024 + b.
template <int kShift, int kZero>
__device__ uint32_t PairOfNibbles(uint32_t word) {
  const uint32_t biased = MaskedAndBiased<0x000F000Fu << kShift>(word);
  if constexpr (kShift == 0) {
    return FmaPairs(biased, kOnePair, kBiasAndZero<kZero>);
  } else {
    // The number is 1024 + 16 b. Numbers from -64 to -128 have steps of 1 / 16.
    constexpr uint32_t kMinus = 0xD400D400u + 16 * kZero * 0x00010001u;
    return FmaPairs(biased, kSixteenthPair, kMinus);
  }
}

// Two unsigned bytes of a word in F16, minus kZero; exact.
template <int kZero, int kFirst, int kSecond>
__device__ uint32_t PairOfBytesMinus(uint32_t bytes) {
  if constexpr (kZero == 0) {
    return PairOfBytes<false, kFirst, kSecond>(bytes);
  } else {
    constexpr uint32_t kSelector = 0x4040u | kFirst | kSecond << 8;
    return FmaPairs(PickBytes(bytes, 0x64646464u, kSelector), kOnePair,
                    kBiasAndZero<kZero>);
  }
}

constexpr bool HasOnlyNibbles(DType type) {
  return type == DType::kQ4_0 || type == DType::kQ4_1 || type == DType::kQ4_K;
}

// The quants of a tile as exact pairs in F16: the even and the odd columns of a
// row and half.
template <DType kType>
struct QuantPairs {
  uint32_t words[4];

  __device__ explicit QuantPairs(const RawTile<kType>& raw) {
    if constexpr (HasOnlyNibbles(kType)) {
      words[0] = raw.quants[0];
      words[1] = raw.quants[1];
    } else if constexpr (kType == DType::kQ6_K) {
      constexpr uint32_t kTwoBits = 0x03030303u;
      UnpackNibbles(raw, words);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t high = raw.highs[0] >> (2 * row);
        words[row] |= (high & kTwoBits) << 4;
        words[2 + row] |= high & (kTwoBits << 4);
      }
    } else {
      UnpackQuants(raw, words);
    }
  }
  template <int kHalf>
  __device__ uint32_t Even(int row) const {
    return Of<kHalf, 0>(row);
  }
  template <int kHalf>
  __device__ uint32_t Odd(int row) const {
    return Of<kHalf, 1>(row);
  }

 private:
  template <int kHalf, int kOdd>
  __device__ uint32_t Of(int row) const {
    if constexpr (HasOnlyNibbles(kType)) {
      return PairOfNibbles<4 * kHalf, ZeroOf(kType)>(words[row] >> (8 * kOdd));
    } else if constexpr (kType == DType::kQ6_K || !HasSignedQuants(kType)) {
      return PairOfBytesMinus<ZeroOf(kType), kOdd, 2 + kOdd>(
          words[2 * kHalf + row]);
    } else {
      return PairOfBytes<true, kOdd, 2 + kOdd>(words[2 * kHalf + row]);
    }
  }
};

// ---- Scales ----------------------------------------------------------------

// Both halves of a pair get its low, or its high half. The compiler turns these
// expressions into modifiers of the instructions that use them.
__device__ inline uint32_t TwiceLow(uint32_t pair) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return LowHalves(pair, pair);
#else
  return BitsOfPair(__low2half2(PairOfBits(pair)));
#endif
}
__device__ inline uint32_t TwiceHigh(uint32_t pair) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return HighHalves(pair, pair);
#else
  return BitsOfPair(__high2half2(PairOfBits(pair)));
#endif
}

// A row's scales of the halves of a tile's columns, and its offset, in F16,
// each in both halves of a word.
struct RowScales {
  uint32_t scale[2];
  uint32_t offset;  // unused by types without
};

// One scale, or a scale and an offset, of F16 for each tile.
constexpr bool HasHalfScales(DType type) {
  return type == DType::kQ4_0 || type == DType::kQ5_0 || type == DType::kQ8_0 ||
         type == DType::kIq4Nl || type == DType::kQ4_1 || type == DType::kQ5_1;
}
constexpr bool HasScalesAndMinima(DType type) {
  return type == DType::kQ4_K || type == DType::kQ5_K;
}
constexpr bool HasQuickTile(DType type) {
  return HasHalfScales(type) || HasScalesAndMinima(type) ||
         type == DType::kQ6_K;
}
// The value of a quant is scale * quant + offset.
constexpr bool HasOffset(DType type) { return HasPairScales(type); }

// The values that the tiles of a block of columns share, prepared once for all
// of them.
template <DType kType>
struct BlockScales {
  __device__ explicit BlockScales(const RawTile<kType>& /*raw*/) {}

  __device__ RowScales Of(const RawTile<kType>& raw, int row,
                          int /*sub*/) const {
    if constexpr (HasOffset(kType)) {
      const uint32_t scale = TwiceLow(raw.scales[row]);
      return {{scale, scale}, TwiceHigh(raw.scales[row])};
    } else {
      const uint32_t scale =
          row == 0 ? TwiceLow(raw.scales[0]) : TwiceHigh(raw.scales[0]);
      return {{scale, scale}, 0};
    }
  }
};

// `lows` has the low four bits of four tiles' scales in the low half of a word,
// and the low four bits of their minima in the high half. `highs` has the high
// two bits in the same places.
template <DType kType>
requires(HasScalesAndMinima(kType)) struct BlockScales<kType> {
  uint32_t lows[2][2];  // [0] is for row g, [1] for row g + 8
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

  __device__ RowScales Of(const RawTile<kType>& /*raw*/, int row,
                          int sub) const {
    const uint32_t low = lows[row][sub / 4] >> (4 * (sub % 4));
    const uint32_t high =
        ((highs[row][sub / 4] >> (4 * (sub % 4))) << 4) & 0x00300030u;
    const uint32_t biased = MaskedAndBiased<0x000F000Fu>(low) | high;
    const uint32_t both =
        MultiplyPairs(FmaPairs(biased, kOnePair, kBiasAndZero<0>), unit[row]);
    return {{TwiceLow(both), TwiceLow(both)}, TwiceHigh(both)};
  }
};

template <>
struct BlockScales<DType::kQ6_K> {
  uint32_t unit[2];  // d of rows g and g + 8

  __device__ explicit BlockScales(const RawTile<DType::kQ6_K>& raw)
      : unit{TwiceLow(raw.scales[0]), TwiceHigh(raw.scales[0])} {}

  __device__ RowScales Of(const RawTile<DType::kQ6_K>& raw, int row,
                          int /*sub*/) const {
    const uint32_t bytes = raw.subscales[0];
    const uint32_t halves = row == 0 ? PairOfBytes<true, 0, 1>(bytes)
                                     : PairOfBytes<true, 2, 3>(bytes);
    const uint32_t both = MultiplyPairs(halves, unit[row]);
    return {{TwiceLow(both), TwiceHigh(both)}, 0};
  }
};

// ---- Tiles -----------------------------------------------------------------

// Rounds the tile `sub` of a block.
template <DType kType>
__device__ HalfTile RoundTile(const RawTile<kType>& raw,
                              [[maybe_unused]] const BlockScales<kType>& block,
                              [[maybe_unused]] int sub) {
  if constexpr (HasQuickTile(kType)) {
    HalfTile rounded = {};
    const QuantPairs<kType> quants(raw);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const RowScales by = block.Of(raw, row, sub);
      const auto scaled = [&](uint32_t pair, int half) {
        if constexpr (HasOffset(kType)) {
          return FmaPairs(pair, by.scale[half], by.offset);
        } else {
          return MultiplyPairs(pair, by.scale[half]);
        }
      };
      rounded.Set(row, 0, scaled(quants.template Even<0>(row), 0),
                  scaled(quants.template Odd<0>(row), 0));
      rounded.Set(row, 1, scaled(quants.template Even<1>(row), 1),
                  scaled(quants.template Odd<1>(row), 1));
    }
    return rounded;
  } else {
    return Rounded<kType>(Unpack(raw, sub));
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_TILES_CUH_
