// The CPU operations, one file each. Their arguments have been validated. Each
// operation picks its instruction path and splits its work over the pool.
#ifndef PLIMSOLL_KERNELS_CPU_OPS_H_
#define PLIMSOLL_KERNELS_CPU_OPS_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "kernels/backend.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/top_list.h"
#include "kernels/experts.h"
#include "kernels/hadamard.h"
#include "kernels/heads.h"
#include "kernels/recurrent.h"

namespace plimsoll::kernels::cpu {

// Rows of `dim` floats in one task of an elementwise operation. A smaller task
// would cost more to hand out than to do.
constexpr int64_t RowGrain(int64_t dim) {
  constexpr int64_t kTaskFloats = 8192;
  return dim >= kTaskFloats ? 1 : kTaskFloats / (dim < 1 ? 1 : dim);
}

// Products of up to this many rows bound their outputs before they compute
// them. Measured: 1.45 times as fast for one row of gemma3-270m, 1.2 times for
// two; with four rows, computing the bounds takes as long as reading what they
// save.
inline constexpr int64_t kMaxTopRows = 2;

// True if a product meets packed activations in integers.
inline bool IsInteger(const MatMulArgs& args) {
  return args.packed != nullptr && !IsFloatType(args.w.dtype);
}

// True if rows in the file's order are multiplied as they are. With more
// activation rows, packing once for all of them is faster.
inline bool ReadsFile(const MatMulArgs& args) {
  constexpr int64_t kMostRows = 8;
  return args.w.order == WeightOrder::kFile && args.n_rows <= kMostRows;
}

constexpr int64_t Panels(const WeightMatrix& w) {
  return CeilDiv(w.rows, kPanelRows);
}

// Panels of a task, at most `most` of `n_panels`. The number is even, because
// products of many rows take panels in twos.
inline int64_t PanelGrain(int64_t n_panels, int64_t most, int n_threads) {
  return std::clamp<int64_t>(n_panels / (n_threads * 8), 1, most / 2) * 2;
}

// Channels of a task of CausalConv.
inline constexpr int64_t kConvBlock = 128;

// Floats of scratch that attention needs on a pool of `n_threads`.
int64_t AttentionScratchFloats(int n_threads);

void GetRows(const GetRowsArgs& args, ThreadPool& pool);
// `scratch`: kMaxTopRows lists for each thread of the pool.
void MatMuls(std::span<const MatMulArgs> products, ThreadPool& pool,
             TopList* scratch);
// Soft-caps the outputs of a product at args.soft_cap. Outputs that are
// kNotComputed stay so.
void SoftCap(const MatMulArgs& args, ThreadPool& pool);
// A product of up to kMaxTopRows rows by a split matrix. It rules out outputs
// that args.top does not need.
void MatMulTop(const MatMulArgs& args, ThreadPool& pool, TopList* scratch);
// Integer products of panels [begin, end) on AMX, only where AMX is in use. It
// is expected to be faster from a tile's rows on (kMinAmxRows).
inline constexpr int64_t kMinAmxRows = 16;
void MatMulAmx(const MatMulArgs& args, int64_t begin, int64_t end);
// Integer products of many rows on AVX-512 with VNNI (UsesVnni512), from
// kMinManyRows rows on. Measured on a Zen 5 beside products of few rows, with
// two threads of one core: 8 rows 1.0 to 1.7 times as fast, 16 rows 1.1 to 1.8
// times, most for Q6_K and Q8_0. Groups of rows (row_groups.h) need 8.
inline constexpr int64_t kMinManyRows = 8;
void MatMulMany(const MatMulArgs& args, int64_t begin, int64_t end);
// MatMulMany of two matrices whose outputs are gated, and packed to `packed`,
// while they are in the caches. It takes panels [begin, end) of both, both
// numbers even.
void GatedMatMulMany(const GatedMatMulArgs& args, std::byte* packed,
                     int64_t begin, int64_t end);
// A product in float32: exact weights on `x`. The second function computes
// panels [begin, end) only.
void MatMulFloat(const MatMulArgs& args, ThreadPool& pool);
void MatMulFloat(const MatMulArgs& args, int64_t begin, int64_t end);
// The panels of all heads' matrices are one loop.
void HeadMatMul(const HeadMatMulArgs& args, ThreadPool& pool);
// Panels [begin, end) of a product of any kind, with the bits of MatMuls; top
// and soft_cap are not looked at.
void MatMulPanels(const MatMulArgs& args, int64_t begin, int64_t end);
void AddBias(const AddBiasArgs& args, ThreadPool& pool);
// Adds the bias to rows [begin, end) only.
void AddBias(const AddBiasArgs& args, int64_t begin, int64_t end);
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);
void AddNorm(const AddNormArgs& args, ThreadPool& pool);
void PackActivations(const PackActivationsArgs& args, ThreadPool& pool);
void RopeAngles(const RopeAnglesArgs& args, ThreadPool& pool);
void Rope(const RopeArgs& args, ThreadPool& pool);
void ScaleRows(const ScaleRowsArgs& args, ThreadPool& pool);
// Scales rows [begin, end) alone.
void ScaleRows(const ScaleRowsArgs& args, int64_t begin, int64_t end);
void CutRows(const CutRowsArgs& args, ThreadPool& pool);
void MixRows(const MixRowsArgs& args, ThreadPool& pool);
void Hadamard(const HadamardArgs& args, ThreadPool& pool);
void StoreRows(const StoreRowsArgs& args, ThreadPool& pool);
void CopyRows(const CopyRowsArgs& args, ThreadPool& pool);
// `scratch`: AttentionScratchFloats() of the pool's threads.
void Attention(const AttentionArgs& args, ThreadPool& pool, float* scratch);
void GatedActivation(const GatedActivationArgs& args, ThreadPool& pool);
// Computes rows [begin, end) alone.
void GatedActivation(const GatedActivationArgs& args, int64_t begin,
                     int64_t end);
// FusesGatedMatMul says whether GatedMatMul can gate products before their
// outputs leave the caches. GatedMatMul returns where it packed them.
bool FusesGatedMatMul(const GatedMatMulArgs& args);
const std::byte* GatedMatMul(const GatedMatMulArgs& args, ThreadPool& pool);
void RouteExperts(const RouteExpertsArgs& args, ThreadPool& pool);
// Returns where the result is packed.
const std::byte* GatedExpertMatMul(const GatedExpertMatMulArgs& args,
                                   ThreadPool& pool);
void ExpertSumMatMul(const ExpertSumMatMulArgs& args, ThreadPool& pool);
void CausalConv(const CausalConvArgs& args, ThreadPool& pool);
void StateScan(const StateScanArgs& args, ThreadPool& pool);
void GatedNorm(const GatedNormArgs& args, ThreadPool& pool);
// `scratch`: one list for each thread of the pool.
void TopK(const TopKArgs& args, ThreadPool& pool, TopList* scratch);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_OPS_H_
