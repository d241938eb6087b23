// Prefetching into the second-level cache.
#ifndef PLIMSOLL_KERNELS_CPU_PREFETCH_H_
#define PLIMSOLL_KERNELS_CPU_PREFETCH_H_

#include <cstdint>

#include "hwy/base.h"

namespace plimsoll::kernels::cpu {

// Asks for the cache line at `at`, which may be anywhere, without a place in
// the nearest cache. That is for what is read so much later that it would only
// drive out what is read now. It must be inlined: GCC 12 drops calls of a
// function that only prefetches.
HWY_INLINE void PrefetchToSecondCache(const void* at) {
  constexpr int kToRead = 0;
  constexpr int kSecondCache = 2;
  __builtin_prefetch(at, kToRead, kSecondCache);
}

// Asks so for all cache lines of the bytes from `begin` to `end`.
HWY_INLINE void PrefetchToSecondCache(const uint8_t* begin,
                                      const uint8_t* end) {
  for (; begin < end; begin += 64) PrefetchToSecondCache(begin);
}

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_PREFETCH_H_
