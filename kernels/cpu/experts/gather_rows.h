// Copies of rows, group by group of the experts that they go to.
#ifndef PLIMSOLL_KERNELS_CPU_EXPERTS_GATHER_ROWS_H_
#define PLIMSOLL_KERNELS_CPU_EXPERTS_GATHER_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/experts/active_experts.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/experts.h"

namespace plimsoll::kernels::cpu {

// out[p] = x[rows[p]] for every place p; rows have `dim` floats.
void GatherFloats(const ExpertRows& rows, const float* x, int64_t dim,
                  float* out, ThreadPool& pool);

// Copies packed rows likewise. Each group in `out` is laid out as rows that are
// packed together.
void GatherPacked(const ExpertRows& rows, const ActiveExperts& active,
                  const std::byte* packed, int64_t dim, std::byte* out,
                  ThreadPool& pool);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_EXPERTS_GATHER_ROWS_H_
