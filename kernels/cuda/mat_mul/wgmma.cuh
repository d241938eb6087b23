// Products of a warpgroup (four warps) on the tensor cores of compute
// capability 9.0: one operand is in registers, the other in shared memory
// (wgmma_layout.h).
//
// A warpgroup calls BeginProducts(), then products, then CommitProducts(),
// which makes a group of them. The products run while the threads continue.
// After AwaitProducts<n>() all groups except the last n have ended. Until its
// group has ended, a product's operands must not change, and its sums must not
// be used.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_WGMMA_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_WGMMA_CUH_

#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/mat_mul/matrix.cuh"
#include "kernels/cuda/mat_mul/wgmma_layout.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// A thread's sums of a product with `n_rows` rows in shared memory.
constexpr int WgmmaSums(int n_rows) { return n_rows / 2; }

#ifdef PLIMSOLL_CUDA_EMULATED

inline void BeginProducts() {}
inline void CommitProducts() {}
template <int kLeft>
void AwaitProducts() {}
template <int kN>
void KeepSums(float (&/*sums*/)[kN]) {}

// Rows g and g + 8 of an operand in registers, which a warp's lanes have.
struct ProductRows {
  float at[2][kWgmmaColumns];

  explicit ProductRows(const uint32_t* a) {
    struct Given {
      uint32_t a[4];
    } mine = {};
    std::copy(a, a + 4, mine.a);
    const std::byte* all = ExchangeBytes(&mine, sizeof(mine));
    for (int t = 0; t < 4; ++t) {
      const auto given = LaneValue<Given>(all, LaneIndex() / 4 * 4 + t);
      for (int i = 0; i < 4; ++i) {
        float* pair = at[i % 2] + i / 2 * 8 + 2 * t;
        pair[0] = Widened<false>(LowHalf(given.a[i]));
        pair[1] = Widened<false>(HighHalf(given.a[i]));
      }
    }
  }
};

// The values of an operand in shared memory whose bytes are at `byte_of(k)`.
template <typename ByteOf>
void ReadHalves(ByteOf byte_of, float (&values)[kWgmmaColumns]) {
  for (int k = 0; k < kWgmmaColumns; ++k) {
    uint16_t bits;
    std::memcpy(&bits, DynamicShared() + byte_of(k), 2);
    values[k] = Widened<false>(bits);
  }
}

// Adds the products of a thread's two rows with its columns, whose element k is
// at `byte_of(column, k)`. A warp computes its own 16 rows, so the emulator
// needs no warpgroup.
template <typename ByteOf>
void AddProducts(const float (&rows)[2][kWgmmaColumns], ByteOf byte_of,
                 int n_sums, float* d) {
  for (int i = 0; i < n_sums; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const int column = i / 4 * 8 + LaneIndex() % 4 * 2 + j;
      float values[kWgmmaColumns];
      ReadHalves([&](int k) { return byte_of(column, k); }, values);
      for (int row = 0; row < 2; ++row) {
        float sum = d[i + 2 * row + j];
        for (int k = 0; k < kWgmmaColumns; ++k) sum += rows[row][k] * values[k];
        d[i + 2 * row + j] = sum;
      }
    }
  }
}

template <int kRows>
void MultiplyGroup(const uint32_t* a, uint64_t b, float* d) {
  const ProductRows rows(a);
  AddProducts(
      rows.at, [b](int column, int k) { return WgmmaByte(b, column, k); },
      WgmmaSums(kRows), d);
}

// d = a b^T, or d += a b^T, for operands of 64 rows in shared memory.
template <bool kAdds>
void MultiplyShared(uint64_t a, uint64_t b, float* d) {
  constexpr int kSums = 32;
  if constexpr (!kAdds) std::fill(d, d + kSums, 0.0f);
  float rows[2][kWgmmaColumns];
  for (int i = 0; i < 2; ++i) {
    const int row = WarpIndex() % 4 * 16 + LaneIndex() / 4 + 8 * i;
    ReadHalves([&](int k) { return WgmmaByte(a, row, k); }, rows[i]);
  }
  AddProducts(
      rows, [b](int column, int k) { return WgmmaByte(b, column, k); }, kSums,
      d);
}

// d += a b for a `b` of kColumns columns that is stored transposed.
template <int kColumns>
void MultiplyTransposed(const uint32_t* a, uint64_t b, float* d) {
  const ProductRows rows(a);
  AddProducts(
      rows.at, [b](int column, int k) { return TransposedByte(b, k, column); },
      kColumns / 2, d);
}

#else

// In code for other devices these functions exist but do nothing; their kernels
// are never started there.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PLIMSOLL_HAS_WGMMA
#endif

__device__ inline void BeginProducts() {
#ifdef PLIMSOLL_HAS_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ inline void CommitProducts() {
#ifdef PLIMSOLL_HAS_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int kLeft>
__device__ void AwaitProducts() {
#ifdef PLIMSOLL_HAS_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#endif
}
// Keeps the compiler from reading sums before this place.
template <int kN>
__device__ void KeepSums(float (&sums)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// The sums of a product as operands, and the text that names them.
#define PLIMSOLL_SUMS_8(i)                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), \
      "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PLIMSOLL_SUMS_16(i) PLIMSOLL_SUMS_8(i), PLIMSOLL_SUMS_8(i + 8)
#define PLIMSOLL_SUMS_32(i) PLIMSOLL_SUMS_16(i), PLIMSOLL_SUMS_16(i + 16)
#define PLIMSOLL_SUMS_64(i) PLIMSOLL_SUMS_32(i), PLIMSOLL_SUMS_32(i + 32)
#define PLIMSOLL_REGISTERS_16 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PLIMSOLL_REGISTERS_32                                           \
  PLIMSOLL_REGISTERS_16                                                 \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, " \
  "%29, %30, %31"
#define PLIMSOLL_REGISTERS_64                                           \
  PLIMSOLL_REGISTERS_32                                                 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, " \
  "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "   \
  "%58, %59, %60, %61, %62, %63"

// d += a b^T for an `a` of 64 rows and a `b` of kRows rows, each of 16 columns
// in F16; the sums are float32. Warp w of the warpgroup has rows 16 w ... of
// `a` as mma.m16n8k16 has them, and the results of these rows: d[4 j ...]
// belong to rows 8 j ... of `b`, spread over the lanes as in mma.m16n8k16. `b`
// is a descriptor.
template <int kRows>
__device__ void MultiplyGroup(const uint32_t* a, uint64_t b, float* d);

#ifdef PLIMSOLL_HAS_WGMMA
template <>
__device__ inline void MultiplyGroup<32>(const uint32_t* a, uint64_t b,
                                         float* d) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{" PLIMSOLL_REGISTERS_16
      "}, "
      "{%16, %17, %18, %19}, "
      "%20, 1, 1, 1, 0;"
      : PLIMSOLL_SUMS_16(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <>
__device__ inline void MultiplyGroup<64>(const uint32_t* a, uint64_t b,
                                         float* d) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{" PLIMSOLL_REGISTERS_32
      "}, {%32, %33, %34, %35}, "
      "%36, 1, 1, 1, 0;"
      : PLIMSOLL_SUMS_32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <>
__device__ inline void MultiplyGroup<128>(const uint32_t* a, uint64_t b,
                                          float* d) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{" PLIMSOLL_REGISTERS_64
      "}, {%64, %65, %66, %67}, "
      "%68, 1, 1, 1, 0;"
      : PLIMSOLL_SUMS_64(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#else
template <int kRows>
__device__ void MultiplyGroup(const uint32_t* /*a*/, uint64_t /*b*/,
                              float* /*d*/) {}
#endif

// d = a b^T, or d += a b^T, for operands of 64 rows in shared memory, each of
// 16 columns in F16. Both are descriptors. The warps have results as in
// MultiplyGroup.
template <bool kAdds>
__device__ void MultiplyShared(uint64_t a, uint64_t b, float* d) {
#ifdef PLIMSOLL_HAS_WGMMA
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{" PLIMSOLL_REGISTERS_32 "}, %32, %33, p, 1, 1, 0, 0;\n}"
      : PLIMSOLL_SUMS_32(0)
      : "l"(a), "l"(b), "n"(kAdds ? 1 : 0));
#endif
}

// d += a b for an `a` of 64 rows and 16 columns in registers, as in
// MultiplyGroup, and a `b` of 16 rows and kColumns columns that is stored
// transposed (TransposedDescriptor).
template <int kColumns>
__device__ void MultiplyTransposed(const uint32_t* a, uint64_t b, float* d) {
  static_assert(kColumns == 64 || kColumns == 128);
#ifdef PLIMSOLL_HAS_WGMMA
  if constexpr (kColumns == 64) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{" PLIMSOLL_REGISTERS_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
        : PLIMSOLL_SUMS_32(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{" PLIMSOLL_REGISTERS_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : PLIMSOLL_SUMS_64(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
#endif
}

#undef PLIMSOLL_SUMS_8
#undef PLIMSOLL_SUMS_16
#undef PLIMSOLL_SUMS_32
#undef PLIMSOLL_SUMS_64
#undef PLIMSOLL_REGISTERS_16
#undef PLIMSOLL_REGISTERS_32
#undef PLIMSOLL_REGISTERS_64

#endif

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_WGMMA_CUH_
