// Small arithmetic of the kernels: conversions, warp reductions and integer
// matrix products, each with its twin for the emulator.
//
// Bits: the device build has -fmad=false, so that every product and every sum
// is rounded as written. Fma is used where a single rounding is wanted. The
// emulator rounds Fma twice.
#ifndef PLIMSOLL_KERNELS_CUDA_NUMERIC_CUH_
#define PLIMSOLL_KERNELS_CUDA_NUMERIC_CUH_

#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cuda/simt.cuh"
#ifdef PLIMSOLL_CUDA_EMULATED
#include <bit>

#include "kernels/quant/float16.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// ---- Between blocks --------------------------------------------------------

// Reads data that another block of the running grid has written.
template <class T>
__device__ T LoadWritten(const T* at) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return *at;
#else
  return __ldcg(at);
#endif
}

#ifdef PLIMSOLL_CUDA_EMULATED
inline void FenceDevice() {}
inline int32_t FetchAndAdd(int32_t* at, int32_t n) {
  return std::exchange(*at, *at + n);
}
inline int32_t FetchAndAddInOrder(int32_t* at, int32_t n) {
  return FetchAndAdd(at, n);
}
#else
__device__ inline void FenceDevice() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
__device__ inline int32_t FetchAndAdd(int32_t* at, int32_t n) {
  return atomicAdd(at, n);
}
// The thread's earlier writes come before the addition, and its later reads
// after it. This is faster than a fence on either side.
__device__ inline int32_t FetchAndAddInOrder(int32_t* at, int32_t n) {
  int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(at)), "r"(n)
               : "memory");
  return before;
}
#endif

// All threads of a block call it after they have written the data for the last
// block. Returns true in the last of `n_blocks` blocks, which then reads the
// data with LoadWritten. The count is zero before and after. `shared` is a word
// of the block's own. One thread's fences are enough, because the block's
// barriers order the other threads' writes and reads.
__device__ inline bool IsLastToArrive(int32_t* count, int32_t n_blocks,
                                      int32_t* shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    FenceDevice();
    *shared = FetchAndAdd(count, 1) == n_blocks - 1 ? 1 : 0;
    if (*shared != 0) *count = 0;
    FenceDevice();
  }
  __syncthreads();
  return *shared != 0;
}

inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;

__device__ inline int ThreadIndex() { return static_cast<int>(threadIdx.x); }
__device__ inline int BlockThreads() { return static_cast<int>(blockDim.x); }
__device__ inline int LaneIndex() {
  return static_cast<int>(threadIdx.x % kWarpThreads);
}
__device__ inline int WarpIndex() {
  return static_cast<int>(threadIdx.x / kWarpThreads);
}
// The thread's index among all threads of a one-dimensional grid.
__device__ inline int64_t GlobalIndex() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// ---- Conversions -----------------------------------------------------------

#ifdef PLIMSOLL_CUDA_EMULATED

inline float FloatOfHalf(uint16_t bits) { return F32FromF16(bits); }
inline uint16_t HalfOfFloat(float x) { return F16FromF32(x); }
inline uint16_t BfloatOfFloat(float x) { return Bf16FromF32(x); }
inline float FloatOfBits(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t BitsOfFloat(float x) { return std::bit_cast<uint32_t>(x); }
inline float Fma(float a, float b, float c) { return a * b + c; }
inline bool IsFinite(float x) { return std::isfinite(x); }
inline int BitWidth(uint32_t x) { return static_cast<int>(std::bit_width(x)); }

#else

__device__ inline float FloatOfHalf(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
__device__ inline uint16_t HalfOfFloat(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
__device__ inline uint16_t BfloatOfFloat(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ inline float FloatOfBits(uint32_t bits) {
  return __uint_as_float(bits);
}
__device__ inline uint32_t BitsOfFloat(float x) { return __float_as_uint(x); }
__device__ inline float Fma(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline bool IsFinite(float x) { return isfinite(x); }
__device__ inline int BitWidth(uint32_t x) { return 32 - __clz(x); }

#endif

__device__ inline float FloatOfBfloat(uint32_t bits) {
  return FloatOfBits(bits << 16);
}
__device__ inline float NotANumber() { return FloatOfBits(0x7FC00000u); }
__device__ inline float MinusInfinity() { return FloatOfBits(0xFF800000u); }

// The low and the high half of two packed 16-bit values.
__device__ inline uint16_t LowHalf(uint32_t pair) {
  return static_cast<uint16_t>(pair & 0xFFFFu);
}
__device__ inline uint16_t HighHalf(uint32_t pair) {
  return static_cast<uint16_t>(pair >> 16);
}

// An element type as a function argument.
template <DType kType>
struct TypeConstant {
  static constexpr DType value = kType;  // NOLINT: std::integral_constant's
};

// Converts eight values of F16 or BF16 to floats.
template <DType kType>
__device__ void FloatsOf(const uint4& words, float* out) {
  static_assert(kType == DType::kF16 || kType == DType::kBF16);
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
  for (int i = 0; i < 4; ++i) {
    if constexpr (kType == DType::kF16) {
      out[2 * i] = FloatOfHalf(LowHalf(pairs[i]));
      out[2 * i + 1] = FloatOfHalf(HighHalf(pairs[i]));
    } else {
      out[2 * i] = FloatOfBfloat(LowHalf(pairs[i]));
      out[2 * i + 1] = FloatOfBfloat(HighHalf(pairs[i]));
    }
  }
}

inline constexpr float kLog2OfE = 1.44269504f;

// 2^x with a relative error of 2^-22; 0 if the result is below 2^-126.
__device__ inline float PowerOfTwo(float x) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return std::exp2(x);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}

// e^x with a relative error of 2^-21; 0 if the result is below 2^-126.
__device__ inline float Exponential(float x) {
  return PowerOfTwo(x * kLog2OfE);
}

// ---- Reductions over a warp or a block -------------------------------------

// Combines the values of all lanes by combine(a, b), as a butterfly of
// exchanges between lanes that are 16, 8, ... and 1 apart. All lanes get the
// result.
template <class T, class Combine>
__device__ T ReduceWarp(T x, Combine combine) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return ReduceLanes(x, combine);
#else
  for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
    x = combine(x, __shfl_xor_sync(kFullWarp, x, mask));
  }
  return x;
#endif
}

__device__ inline float WarpMax(float x) {
  return ReduceWarp(x, [](float a, float b) { return fmaxf(a, b); });
}

template <class T>
__device__ T WarpSum(T x) {
  return ReduceWarp(x, [](T a, T b) { return a + b; });
}

// Reductions of integers over a warp, in one instruction.
__device__ inline uint32_t LaneSum(uint32_t x) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return WarpSum(x);
#else
  return __reduce_add_sync(kFullWarp, x);
#endif
}
__device__ inline uint32_t LaneMax(uint32_t x) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return ReduceWarp(x, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
#else
  return __reduce_max_sync(kFullWarp, x);
#endif
}
__device__ inline uint32_t LaneMin(uint32_t x) { return ~LaneMax(~x); }

// The sum over all threads of a block, in an order that only depends on the
// block's size. `shared` holds one value for each warp; all threads get the
// sum.
template <class T>
__device__ T BlockSum(T x, T* shared) {
  x = WarpSum(x);
  __syncthreads();
  if (LaneIndex() == 0) shared[WarpIndex()] = x;
  __syncthreads();
  T sum = shared[0];
  for (int w = 1; w < BlockThreads() / kWarpThreads; ++w) sum += shared[w];
  return sum;
}

// The maximum over all threads of a block. `shared` holds one value for each
// warp.
__device__ inline float BlockMax(float x, float* shared) {
  x = WarpMax(x);
  __syncthreads();
  if (LaneIndex() == 0) shared[WarpIndex()] = x;
  __syncthreads();
  for (int w = 0; w < BlockThreads() / kWarpThreads; ++w) {
    x = fmaxf(x, shared[w]);
  }
  return x;
}

// Adds to a number to which other threads may add at the same time.
__device__ inline void AddAtomically(uint32_t* sum, uint32_t x) {
#ifdef PLIMSOLL_CUDA_EMULATED
  *sum += x;
#else
  atomicAdd(sum, x);
#endif
}
// Adds one to a counter and returns the earlier value.
__device__ inline uint32_t CountAtomically(uint32_t* counter) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return (*counter)++;
#else
  return atomicAdd(counter, 1u);
#endif
}
__device__ inline void AddAtomically(uint64_t* sum, uint64_t x) {
#ifdef PLIMSOLL_CUDA_EMULATED
  *sum += x;
#else
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long*>(sum),
            static_cast<unsigned long long>(x));
#endif
}
__device__ inline void MaxAtomically(uint32_t* max, uint32_t x) {
#ifdef PLIMSOLL_CUDA_EMULATED
  *max = x > *max ? x : *max;
#else
  atomicMax(max, x);
#endif
}

// Four of the eight bytes of `low` and `high`, one for each of the selector's
// four nibbles, which are below 8.
__device__ inline uint32_t PickBytes(uint32_t low, uint32_t high,
                                     uint32_t selector) {
#ifdef PLIMSOLL_CUDA_EMULATED
  const uint64_t both = low | (uint64_t{high} << 32);
  uint32_t picked = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t from = (selector >> (4 * i)) & 7u;
    picked |= static_cast<uint32_t>((both >> (8 * from)) & 0xFFu) << (8 * i);
  }
  return picked;
#else
  return __byte_perm(low, high, selector);
#endif
}

// ---- Integer matrix products of a warp -------------------------------------

// LowBytes takes the low bytes of four 16-bit values, HighBytes their high
// bytes.
__device__ inline uint32_t LowBytes(uint2 values) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return (values.x & 0xFFu) | ((values.x >> 8) & 0xFF00u) |
         ((values.y & 0xFFu) << 16) | ((values.y << 8) & 0xFF000000u);
#else
  return __byte_perm(values.x, values.y, 0x6420);
#endif
}
__device__ inline uint32_t HighBytes(uint2 values) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return LowBytes({values.x >> 8, values.y >> 8});
#else
  return __byte_perm(values.x, values.y, 0x7531);
#endif
}

#ifdef PLIMSOLL_CUDA_EMULATED

template <bool kIsSigned>
int32_t ByteAt(uint32_t word, int i) {
  const uint32_t byte = (word >> (8 * i)) & 0xFFu;
  return kIsSigned ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
}

// Gives every lane the other lanes' operands `mine` that it needs for its four
// sums. With g = lane / 4 and t = lane % 4, it calls add(row, column, c) for
// each of the row's lanes 4g ... and each column 2t + c; `column` comes from
// the lane that has the same part of that column.
template <class Given, class Add>
void ForFragments(const Given& mine, const Add& add) {
  const std::byte* all = ExchangeBytes(&mine, sizeof(mine));
  const int group = LaneIndex() / 4;
  const int place = LaneIndex() % 4;
  for (int t = 0; t < 4; ++t) {
    const auto row = LaneValue<Given>(all, group * 4 + t);
    for (int c = 0; c < 2; ++c) {
      add(row, LaneValue<Given>(all, (place * 2 + c) * 4 + t), c);
    }
  }
}

// d += a b for a 16x(16 kSteps) and b (16 kSteps)x8, spread over the lanes like
// the instruction's operands: with g = lane / 4 and t = lane % 4, a[2s] is row
// g and a[2s + 1] row g + 8, columns 16s + 4t ...; b[s] is column g, rows 16s +
// 4t ...; d is row g, columns 2t and 2t + 1, then row g + 8. Source: the PTX
// manual, fragments of mma.m16n8k16 and mma.m16n8k32 of 8-bit integers.
template <int kSteps, bool kIsSignedA, bool kIsSignedB>
void EmulateMma(const uint32_t* a, const uint32_t* b, int32_t* d) {
  struct Given {
    uint32_t a[2 * kSteps];
    uint32_t b[kSteps];
  } mine = {};
  std::copy(a, a + 2 * kSteps, mine.a);
  std::copy(b, b + kSteps, mine.b);
  ForFragments(mine, [d](const Given& row, const Given& column, int c) {
    for (int s = 0; s < kSteps; ++s) {
      for (int i = 0; i < 4; ++i) {
        const int32_t y = ByteAt<kIsSignedB>(column.b[s], i);
        d[c] += ByteAt<kIsSignedA>(row.a[2 * s], i) * y;
        d[2 + c] += ByteAt<kIsSignedA>(row.a[2 * s + 1], i) * y;
      }
    }
  });
}

template <bool kIsSignedA, bool kIsSignedB>
void Mma32(const uint32_t* a, const uint32_t* b, int32_t* d) {
  EmulateMma<2, kIsSignedA, kIsSignedB>(a, b, d);
}
template <bool kIsSignedA, bool kIsSignedB>
void Mma16(const uint32_t* a, uint32_t b, int32_t* d) {
  EmulateMma<1, kIsSignedA, kIsSignedB>(a, &b, d);
}

#else

#define PLIMSOLL_MMA32(A, B)                                                 \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." A "." B                       \
      ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                       \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define PLIMSOLL_MMA16(A, B)                                     \
  asm("mma.sync.aligned.m16n8k16.row.col.s32." A "." B           \
      ".s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])           \
      : "r"(a[0]), "r"(a[1]), "r"(b))

template <bool kIsSignedA, bool kIsSignedB>
__device__ inline void Mma32(const uint32_t* a, const uint32_t* b, int32_t* d) {
  if constexpr (kIsSignedA && kIsSignedB) {
    PLIMSOLL_MMA32("s8", "s8");
  } else if constexpr (kIsSignedA) {
    PLIMSOLL_MMA32("s8", "u8");
  } else if constexpr (kIsSignedB) {
    PLIMSOLL_MMA32("u8", "s8");
  } else {
    PLIMSOLL_MMA32("u8", "u8");
  }
}
template <bool kIsSignedA, bool kIsSignedB>
__device__ inline void Mma16(const uint32_t* a, uint32_t b, int32_t* d) {
  if constexpr (kIsSignedA && kIsSignedB) {
    PLIMSOLL_MMA16("s8", "s8");
  } else if constexpr (kIsSignedA) {
    PLIMSOLL_MMA16("s8", "u8");
  } else if constexpr (kIsSignedB) {
    PLIMSOLL_MMA16("u8", "s8");
  } else {
    PLIMSOLL_MMA16("u8", "u8");
  }
}

#undef PLIMSOLL_MMA32
#undef PLIMSOLL_MMA16

#endif

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_NUMERIC_CUH_
