// Which memory nodes (NUMA) pages come from.
#ifndef PLIMSOLL_KERNELS_MEMORY_NODES_H_
#define PLIMSOLL_KERNELS_MEMORY_NODES_H_

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace plimsoll::kernels {

// Linux has at most this many memory nodes.
inline constexpr size_t kMaxMemoryNodes = 1024;
using MemoryNodes = std::bitset<kMaxMemoryNodes>;

// The nodes that this process may use. The set is empty where the system does
// not say, or where the process was given a policy of its own (numactl).
MemoryNodes NodesToSpreadOver();

// Lets untouched pages of [data, data + bytes) come from `nodes` in turn, so
// that every thread reads at the bandwidth of all nodes wherever it runs.
// `data` is the beginning of a page and `bytes` a multiple of the page size.
// Returns false if the system refuses, as some containers do; pages then come
// from the node of whoever touches them first.
bool InterleavePages(std::byte* data, int64_t bytes, const MemoryNodes& nodes);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_MEMORY_NODES_H_
