// These are the two system calls themselves: libnuma does much more than this.
#include "kernels/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace plimsoll::kernels {
namespace {

constexpr size_t kWordBits = 8 * sizeof(unsigned long);
// A set of nodes as the system calls take it.
using Mask = std::array<unsigned long, kMaxMemoryNodes / kWordBits>;

}  // namespace

MemoryNodes NodesToSpreadOver() {
  Mask mask = {};
  MemoryNodes nodes;
  int policy = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 ||
      policy != MPOL_DEFAULT) {
    return nodes;
  }
  if (syscall(SYS_get_mempolicy, nullptr, mask.data(), kMaxMemoryNodes, nullptr,
              MPOL_F_MEMS_ALLOWED) != 0) {
    return nodes;
  }
  for (size_t i = 0; i < kMaxMemoryNodes; ++i) {
    nodes[i] = (mask[i / kWordBits] >> (i % kWordBits) & 1) != 0;
  }
  return nodes;
}

bool InterleavePages(std::byte* data, int64_t bytes, const MemoryNodes& nodes) {
  Mask mask = {};
  for (size_t i = 0; i < kMaxMemoryNodes; ++i) {
    if (nodes[i]) mask[i / kWordBits] |= 1ul << (i % kWordBits);
  }
  return syscall(SYS_mbind, data, bytes, MPOL_INTERLEAVE, mask.data(),
                 kMaxMemoryNodes, 0) == 0;
}

}  // namespace plimsoll::kernels
