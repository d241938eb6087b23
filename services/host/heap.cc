#include "services/host/heap.h"

#include <malloc.h>

namespace plimsoll::services {
namespace {

// The threshold is below messages of some size and above everything that a step
// or a small call allocates.
constexpr int kMappedBytes = 512 << 10;

}  // namespace

void KeepHeapSmall() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  mallopt(M_TRIM_THRESHOLD, kMappedBytes);
#endif
}

void TrimHeap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace plimsoll::services
