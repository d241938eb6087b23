// The CUDA operations, one file each. Their arguments have been validated.
// Operations queue their work. Operations that wait for a result use the stream
// itself; at that time the queue holds no calls.
#ifndef PLIMSOLL_KERNELS_CUDA_OPS_H_
#define PLIMSOLL_KERNELS_CUDA_OPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/staging.h"
#include "kernels/experts.h"
#include "kernels/hadamard.h"
#include "kernels/heads.h"
#include "kernels/recurrent.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Device memory for results between the kernels of one operation.
inline constexpr int64_t kScratchBytes = int64_t{64} << 20;
// Pinned memory for the results of one TopK.
inline constexpr int64_t kResultBytes = int64_t{1} << 20;

// Counts of ended blocks, for kernels whose last block does more work.
inline constexpr int64_t kCounts = 4'096;
inline constexpr int64_t kCountBytes = kCounts * int64_t{sizeof(int32_t)};

// The resources that an operation may use; the backend owns all of them.
struct Context {
  Stream stream;
  Staging* staging;
  LaunchQueue* queue;             // on the stream
  std::byte* scratch;             // [kScratchBytes], on the device
  std::byte* results;             // [kResultBytes], pinned
  std::vector<float>* host_rows;  // scratch of GetRows, kept between steps
  int32_t* counts;                // [kCounts], zeros between operations
  int64_t n_multiprocessors;
  // The next fields are those of CudaOptions.
  CudaOptions::TensorAttention tensor_attention;
  int64_t decode_spans;
  int64_t prompt_product_rows;
  int64_t half_product_rows;
  int64_t wgmma_rows;    // the largest number if the device has no wgmma
  bool streams_weights;  // only if the device can
  bool streams_few_rows;
  int64_t few_row_slices;
  bool wgmma_attention;  // only if the device has the instructions
  int64_t prompt_attention_slices;
  bool prefetches_weights;
};

// True if the device and the code for it can stream weights.
bool CanStream(const DeviceFacts& facts);
// Uploads rows [first_row, first_row + n) of `matrix`, whose file bytes are
// `file_rows`, through pinned memory to the device, which converts them to the
// layout of weight_layout.h. first_row is a multiple of kTileRows, and so is n
// except at the end. Rows past the end of the last tile become zeros. The
// memory of `file_rows` may be reused afterwards.
// Errors: kResourceExhausted if kTileRows rows are more than
// Staging::kBufferBytes.
absl::Status PackRows(const Context& context, const WeightMatrix& matrix,
                      int64_t first_row, std::span<const std::byte> file_rows);
absl::Status GetRows(const Context& context, const GetRowsArgs& args);
// The numbers of rows after which products use other kernels; see
// DeviceInfo::step_rows.
std::vector<int64_t> StepRows(const Context& context);
// Products of one type that read the same activations are one launch.
void MatMuls(const Context& context, std::span<const MatMulArgs> products);
// Soft-caps the outputs of a product at args.soft_cap.
void SoftCap(const Context& context, const MatMulArgs& args);
void AddBiases(const Context& context, std::span<const AddBiasArgs> list);
// A product in float32: exact weights on `x`.
void MatMulFloat(const Context& context, const MatMulArgs& args);
void HeadMatMul(const Context& context, const HeadMatMulArgs& args);
void RmsNorm(const Context& context, const RmsNormArgs& args);
void AddNorm(const Context& context, const AddNormArgs& args);
void PackActivations(const Context& context, const PackActivationsArgs& args);
absl::Status RopeAngles(const Context& context, const RopeAnglesArgs& args);
void Rope(const Context& context, const RopeArgs& args);
absl::Status ScaleRows(const Context& context, const ScaleRowsArgs& args);
void CutRows(const Context& context, const CutRowsArgs& args);
void MixRows(const Context& context, const MixRowsArgs& args);
void Hadamard(const Context& context, const HadamardArgs& args);
absl::Status StoreRows(const Context& context, const StoreRowsArgs& args);
absl::Status CopyRows(const Context& context, const CopyRowsArgs& args);
absl::Status PrepareHeads(const Context& context, const PrepareHeadsArgs& args);
absl::Status Attention(const Context& context, const AttentionArgs& args);
void GatedActivation(const Context& context, const GatedActivationArgs& args);
// FusesGatedMatMul is true for products that GatedMatMul computes in one
// kernel: the gated half of a feed-forward network. GatedMatMul returns the
// address of the packed result.
bool FusesGatedMatMul(const Context& context, const GatedMatMulArgs& args);
const std::byte* GatedMatMul(const Context& context,
                             const GatedMatMulArgs& args);
void RouteExperts(const Context& context, const RouteExpertsArgs& args);
// The result is packed to args.packed_out.
void GatedExpertMatMul(const Context& context,
                       const GatedExpertMatMulArgs& args);
void ExpertSumMatMul(const Context& context, const ExpertSumMatMulArgs& args);
absl::Status CausalConv(const Context& context, const CausalConvArgs& args);
absl::Status StateScan(const Context& context, const StateScanArgs& args);
void GatedNorm(const Context& context, const GatedNormArgs& args);
// Returns when the result is there.
absl::Status TopK(const Context& context, const TopKArgs& args);
// Returns when the result is there.
absl::StatusOr<SampledToken> Sample(const Context& context,
                                    const SampleArgs& args);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_OPS_H_
