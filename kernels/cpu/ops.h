// The CPU operations, one file each; arguments have been validated. Each picks
// its instruction path and splits its work over the pool.
#ifndef PLIMSOLL_KERNELS_CPU_OPS_H_
#define PLIMSOLL_KERNELS_CPU_OPS_H_

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace plimsoll::kernels::cpu {

// Rows of `dim` floats in one task of an elementwise operation: fewer would
// cost more to hand out than to do.
constexpr int64_t RowGrain(int64_t dim) {
  constexpr int64_t kTaskFloats = 8192;
  return dim >= kTaskFloats ? 1 : kTaskFloats / (dim < 1 ? 1 : dim);
}

// Floats of scratch that attention needs per thread.
int64_t AttentionScratchFloats();

// Each thread's own k largest so far, for TopK.
struct TopKScratch {
  float values[kMaxCandidates];
  int32_t ids[kMaxCandidates];
  int64_t n;
};

void GetRows(const GetRowsArgs& args, ThreadPool& pool);
void MatMul(const MatMulArgs& args, ThreadPool& pool);
// MatMul's float32 path: exact weights on `x`.
void MatMulFloat(const MatMulArgs& args, ThreadPool& pool);
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);
void PackActivations(const PackActivationsArgs& args, ThreadPool& pool);
void RopeAngles(const RopeAnglesArgs& args, ThreadPool& pool);
void Rope(const RopeArgs& args, ThreadPool& pool);
void StoreRows(const StoreRowsArgs& args, ThreadPool& pool);
void CopyRows(const CopyRowsArgs& args, ThreadPool& pool);
// `scratch`: AttentionScratchFloats() for each thread of the pool.
void Attention(const AttentionArgs& args, ThreadPool& pool, float* scratch);
void GatedActivation(const GatedActivationArgs& args, ThreadPool& pool);
// `scratch`: one for each thread of the pool.
void TopK(const TopKArgs& args, ThreadPool& pool, TopKScratch* scratch);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_OPS_H_
