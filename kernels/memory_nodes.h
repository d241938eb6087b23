// Which memory nodes (NUMA) pages come from.
#ifndef PLIMSOLL_KERNELS_MEMORY_NODES_H_
#define PLIMSOLL_KERNELS_MEMORY_NODES_H_

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace plimsoll::kernels {

// As many as Linux can have.
inline constexpr size_t kMaxMemoryNodes = 1024;
using MemoryNodes = std::bitset<kMaxMemoryNodes>;

// Those that this process may use; none where the system does not say, or where
// the process was given a policy of its own (numactl).
MemoryNodes NodesToSpreadOver();

// Pages of [data, data + bytes), a multiple of the page size from the beginning
// of a page on, that nobody has touched come from `nodes` in turn: every thread
// then reads at the bandwidth of all of them, wherever it runs. False if the
// system refuses, as some containers do; pages then come from the node of
// whoever touches them first.
bool InterleavePages(std::byte* data, int64_t bytes, const MemoryNodes& nodes);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_MEMORY_NODES_H_
