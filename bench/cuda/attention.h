// How fast is attention on the CUDA backend? It is a part of cuda_bench.
#ifndef PLIMSOLL_BENCH_CUDA_ATTENTION_H_
#define PLIMSOLL_BENCH_CUDA_ATTENTION_H_

#include "bench/cuda/timing.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

// Prints the times of generated tokens, of one row and of prompts. `backend` is
// one of `device`.
void BenchAttentions(int device, Backend& backend, const Rates& rates);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_CUDA_ATTENTION_H_
