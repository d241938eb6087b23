// The reference operations: plain loops with double accumulation, one file
// each.
#ifndef PLIMSOLL_KERNELS_REFERENCE_OPS_H_
#define PLIMSOLL_KERNELS_REFERENCE_OPS_H_

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/hadamard.h"
#include "kernels/heads.h"
#include "kernels/recurrent.h"

namespace plimsoll::kernels::reference {

absl::Status GetRows(const GetRowsArgs& args);
absl::Status MatMul(const MatMulArgs& args);
absl::Status HeadMatMul(const HeadMatMulArgs& args);
void AddBias(const AddBiasArgs& args);
void RmsNorm(const RmsNormArgs& args);
void PackActivations(const PackActivationsArgs& args);
void RopeAngles(const RopeAnglesArgs& args);
void Rope(const RopeArgs& args);
void ScaleRows(const ScaleRowsArgs& args);
void CutRows(const CutRowsArgs& args);
void MixRows(const MixRowsArgs& args);
void Hadamard(const HadamardArgs& args);
void StoreRows(const StoreRowsArgs& args);
void CopyRows(const CopyRowsArgs& args);
void Attention(const AttentionArgs& args);
void GatedActivation(const GatedActivationArgs& args);
void RouteExperts(const RouteExpertsArgs& args);
// Results are packed to args.packed_out.
absl::Status GatedExpertMatMul(const GatedExpertMatMulArgs& args);
absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args);
void CausalConv(const CausalConvArgs& args);
void StateScan(const StateScanArgs& args);
void GatedNorm(const GatedNormArgs& args);
void TopK(const TopKArgs& args);

}  // namespace plimsoll::kernels::reference

#endif  // PLIMSOLL_KERNELS_REFERENCE_OPS_H_
