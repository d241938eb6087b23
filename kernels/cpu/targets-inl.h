// Which instruction paths every file of the CPU backend is compiled for. Files
// include it before any header of Highway.
#ifndef PLIMSOLL_KERNELS_CPU_TARGETS_INL_H_
#define PLIMSOLL_KERNELS_CPU_TARGETS_INL_H_

// AVX-512 with VNNI is worth a path of its own.
#define HWY_WANT_AVX3_DL

// These paths are kept on x86: SSE4 (the fallback), AVX2, AVX3, AVX3_DL. Bits 3
// to 6 are the paths that newer versions of Highway add above AVX3_DL. NEON is
// kept on ARM. Vectors of unknown length are left out because the kernels keep
// arrays of vectors. Bit 26 is left out too: newer versions of Highway give it
// to NEON with BF16. Some builds with sanitizers have neither AVX3 nor AVX3_DL
// (bits 8 and 7).
#if defined(__x86_64__) && defined(PLIMSOLL_NO_AVX3)
#define HWY_DISABLED_TARGETS 0x1F8
#elif defined(__x86_64__)
#define HWY_DISABLED_TARGETS 0x78
#else
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | (1LL << 26))
#endif

#endif  // PLIMSOLL_KERNELS_CPU_TARGETS_INL_H_
