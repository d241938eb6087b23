// Products of 16-bit floats on the tensor cores. A float32 number becomes a sum
// of two such floats, so that a product loses little precision.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_MATRIX_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_MATRIX_CUH_

#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// With kIsBf16 the 16-bit type is BF16, otherwise F16, here and below.
template <bool kIsBf16>
__device__ uint16_t Rounded(float x) {
  return kIsBf16 ? BfloatOfFloat(x) : HalfOfFloat(x);
}
template <bool kIsBf16>
__device__ float Widened(uint16_t bits) {
  return kIsBf16 ? FloatOfBfloat(bits) : FloatOfHalf(bits);
}

// Packs two values into one word, the first one into its low half.
template <bool kIsBf16>
__device__ uint32_t PackPair(float first, float second) {
  return static_cast<uint32_t>(Rounded<kIsBf16>(first)) |
         (static_cast<uint32_t>(Rounded<kIsBf16>(second)) << 16);
}

// PackPair<false> in one instruction.
__device__ inline uint32_t PackHalves(float first, float second) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return PackPair<false>(first, second);
#else
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#endif
}

// FmaPairs, MultiplyPairs and Negated compute a * b + c, a * b and -a of pairs
// in F16, rounded once.
#ifdef PLIMSOLL_CUDA_EMULATED

inline uint32_t FmaPairs(uint32_t a, uint32_t b, uint32_t c) {
  return PackPair<false>(FloatOfHalf(LowHalf(a)) * FloatOfHalf(LowHalf(b)) +
                             FloatOfHalf(LowHalf(c)),
                         FloatOfHalf(HighHalf(a)) * FloatOfHalf(HighHalf(b)) +
                             FloatOfHalf(HighHalf(c)));
}
inline uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
  return FmaPairs(a, b, 0);
}
inline uint32_t Negated(uint32_t pair) { return pair ^ 0x80008000u; }

#else

__device__ inline __half2 PairOfBits(uint32_t bits) {
  __half2 pair;
  memcpy(&pair, &bits, sizeof(pair));
  return pair;
}
__device__ inline uint32_t BitsOfPair(__half2 pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
__device__ inline uint32_t Negated(uint32_t pair) {
  return BitsOfPair(__hneg2(PairOfBits(pair)));
}
__device__ inline uint32_t FmaPairs(uint32_t a, uint32_t b, uint32_t c) {
  return BitsOfPair(__hfma2(PairOfBits(a), PairOfBits(b), PairOfBits(c)));
}
__device__ inline uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
  return BitsOfPair(__hmul2_rn(PairOfBits(a), PairOfBits(b)));
}

#endif

// Converts two bytes of a word to F16, exactly.
template <bool kIsSigned, int kFirst, int kSecond>
__device__ uint32_t PairOfBytes(uint32_t bytes) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return PackPair<false>(static_cast<float>(ByteAt<kIsSigned>(bytes, kFirst)),
                         static_cast<float>(ByteAt<kIsSigned>(bytes, kSecond)));
#else
  // 0x6400 | b is 1024 + b.
  constexpr uint32_t kFlip = kIsSigned ? 0x80808080u : 0u;
  const __half2 zero = __float2half2_rn(kIsSigned ? 1152.0f : 1024.0f);
  const uint32_t biased =
      __byte_perm(bytes ^ kFlip, 0x64646464u, 0x4040 | kFirst | (kSecond << 8));
  return BitsOfPair(__hsub2(PairOfBits(biased), zero));
#endif
}

// high + low is the value: to 22 bits with F16 (small values to 2^-25 at
// least), and to 16 bits with BF16.
struct SplitPair {
  uint32_t high;
  uint32_t low;
};
template <bool kIsBf16>
__device__ SplitPair Split(float first, float second) {
  SplitPair pair;
  pair.high = PackPair<kIsBf16>(first, second);
  pair.low = PackPair<kIsBf16>(first - Widened<kIsBf16>(LowHalf(pair.high)),
                               second - Widened<kIsBf16>(HighHalf(pair.high)));
  return pair;
}

// LowHalves joins the low halves of two words, HighHalves the high halves.
#ifdef PLIMSOLL_CUDA_EMULATED
inline uint32_t LowHalves(uint32_t a, uint32_t b) {
  return (a & 0xFFFFu) | (b << 16);
}
inline uint32_t HighHalves(uint32_t a, uint32_t b) {
  return (a >> 16) | (b & 0xFFFF0000u);
}
#else
__device__ inline uint32_t LowHalves(uint32_t a, uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ inline uint32_t HighHalves(uint32_t a, uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}
#endif

// Loads four matrices of 8 x 8 elements of 16 bits from shared memory. Lane l
// gives the address of row l % 8 of matrix l / 8, a multiple of 16. r[i] gets,
// of matrix i, row l / 4, columns 2 (l % 4) and the next one; transposed it
// gets column l / 4, rows 2 (l % 4) and the next one. Source: the PTX manual,
// ldmatrix.
#ifdef PLIMSOLL_CUDA_EMULATED

template <bool kIsTransposed>
void LoadMatrices(const std::byte* row, uint32_t* r) {
  const std::byte* all = ExchangeBytes(&row, sizeof(row));
  const int group = LaneIndex() / 4;
  const int pair = LaneIndex() % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    uint16_t halves[2];
    for (int e = 0; e < 2; ++e) {
      const int at_row = kIsTransposed ? pair + e : group;
      const int at_column = kIsTransposed ? group : pair + e;
      const auto* from = LaneValue<const std::byte*>(all, i * 8 + at_row);
      std::memcpy(halves + e, from + at_column * 2, 2);
    }
    r[i] = halves[0] | static_cast<uint32_t>(halves[1]) << 16;
  }
}

#else

template <bool kIsTransposed>
__device__ void LoadMatrices(const std::byte* row, uint32_t* r) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kIsTransposed) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"(at)
        : "memory");
  } else {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"(at)
        : "memory");
  }
}

#endif

// d += a b for a 16x16 and b 16x8 of 16-bit floats, added up in float32. With
// g = lane / 4 and t = lane % 4, a[0] is row g, columns 2t and 2t + 1, a[1] row
// g + 8, a[2] and a[3] the same 8 columns further; b[0] is column g, rows 2t
// and 2t + 1, b[1] 8 rows further; d is row g, columns 2t and 2t + 1, then row
// g + 8. Source: the PTX manual, fragments of mma.m16n8k16 of .f16 and .bf16.
#ifdef PLIMSOLL_CUDA_EMULATED

template <bool kIsBf16>
void MmaFloat(const uint32_t* a, const uint32_t* b, float* d) {
  struct Given {
    float a[8];
    float b[4];
  } mine = {};
  const auto widen = [](const uint32_t* words, int n, float* to) {
    for (int i = 0; i < n; ++i) {
      to[2 * i] = Widened<kIsBf16>(LowHalf(words[i]));
      to[2 * i + 1] = Widened<kIsBf16>(HighHalf(words[i]));
    }
  };
  widen(a, 4, mine.a);
  widen(b, 2, mine.b);
  ForFragments(mine, [d](const Given& row, const Given& column, int c) {
    for (int i = 0; i < 4; ++i) {
      const int at = i / 2 * 4 + i % 2;  // a[0] or a[2]
      d[c] += row.a[at] * column.b[i];
      d[2 + c] += row.a[at + 2] * column.b[i];
    }
  });
}

#else

#define PLIMSOLL_MMA(TYPE)                                               \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE             \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, " \
      "%3};"                                                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <bool kIsBf16>
__device__ inline void MmaFloat(const uint32_t* a, const uint32_t* b,
                                float* d) {
  if constexpr (kIsBf16) {
    PLIMSOLL_MMA("bf16");
  } else {
    PLIMSOLL_MMA("f16");
  }
}

#undef PLIMSOLL_MMA

#endif

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_MATRIX_CUH_
