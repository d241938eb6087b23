// How fast threads read memory: what decode is measured against.
#ifndef PLIMSOLL_KERNELS_CPU_READ_BANDWIDTH_H_
#define PLIMSOLL_KERNELS_CPU_READ_BANDWIDTH_H_

#include <cstdint>
#include <span>

#include "kernels/cpu/thread_pool.h"

namespace plimsoll::kernels {

// The exclusive or of all of `words`, read once from front to back by all
// threads of the pool, each a piece at a time.
uint64_t ReadAll(std::span<const uint64_t> words, ThreadPool& pool);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_READ_BANDWIDTH_H_
