// How fast registers multiply integers, the measure for prefill, and floats.
#ifndef PLIMSOLL_KERNELS_CPU_PRODUCT_RATE_H_
#define PLIMSOLL_KERNELS_CPU_PRODUCT_RATE_H_

#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace plimsoll::kernels {

// Adds up products of ones with the best integer dot product of the path in
// use, in registers alone, in `n_tasks` equal pieces that the threads of the
// pool share. Returns the sum, which is the number of multiply-adds.
int64_t MultiplyOnes(int64_t n_tasks, ThreadPool& pool);

// Adds up products of float32 ones in the same way.
int64_t MultiplyFloatOnes(int64_t n_tasks, ThreadPool& pool);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_PRODUCT_RATE_H_
