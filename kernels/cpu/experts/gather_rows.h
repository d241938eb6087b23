// Copies of rows, group by group of the experts that they go to.
#ifndef PLIMSOLL_KERNELS_CPU_EXPERTS_GATHER_ROWS_H_
#define PLIMSOLL_KERNELS_CPU_EXPERTS_GATHER_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/experts/active_experts.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/experts.h"

namespace plimsoll::kernels::cpu {

// Where rows of `dim` numbers are read and written.
template <class T>
struct RowCopy {
  const T* from;
  T* to;
  int64_t dim;
};

// to[p] = from[rows[p]] for every place p.
void GatherFloats(const ExpertRows& rows, const RowCopy<float>& copy,
                  ThreadPool& pool);

// Copies packed rows likewise. Each group in `to` is laid out as rows that are
// packed together.
void GatherPacked(const ExpertRows& rows, const ActiveExperts& active,
                  const RowCopy<std::byte>& copy, ThreadPool& pool);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_EXPERTS_GATHER_ROWS_H_
