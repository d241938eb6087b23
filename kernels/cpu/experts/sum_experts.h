// The sum over a row's experts.
#ifndef PLIMSOLL_KERNELS_CPU_EXPERTS_SUM_EXPERTS_H_
#define PLIMSOLL_KERNELS_CPU_EXPERTS_SUM_EXPERTS_H_

#include "kernels/cpu/thread_pool.h"
#include "kernels/experts.h"

namespace plimsoll::kernels::cpu {

// Computes args.out from args.products, which must be computed already.
void SumExperts(const ExpertSumMatMulArgs& args, ThreadPool& pool);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_EXPERTS_SUM_EXPERTS_H_
