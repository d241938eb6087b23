// How fast threads read memory, the measure for decode.
#ifndef PLIMSOLL_KERNELS_CPU_READ_BANDWIDTH_H_
#define PLIMSOLL_KERNELS_CPU_READ_BANDWIDTH_H_

#include <cstdint>
#include <span>

#include "kernels/cpu/thread_pool.h"

namespace plimsoll::kernels {

// Returns the exclusive or of all of `words`. All threads of the pool read them
// once from front to back, a piece at a time.
uint64_t ReadAll(std::span<const uint64_t> words, ThreadPool& pool);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_READ_BANDWIDTH_H_
