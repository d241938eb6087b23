// The CUDA operations, one file each; arguments have been validated. They queue
// their work; those that wait for it use the stream itself, on which nothing is
// held back then.
#ifndef PLIMSOLL_KERNELS_CUDA_OPS_H_
#define PLIMSOLL_KERNELS_CUDA_OPS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/staging.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Device memory for results between the kernels of one operation.
inline constexpr int64_t kScratchBytes = int64_t{64} << 20;
// Pinned memory for what one TopK brings back.
inline constexpr int64_t kResultBytes = int64_t{1} << 20;

// What an operation may use; the backend owns it all.
struct Context {
  Stream stream;
  Staging* staging;
  LaunchQueue* queue;  // on the stream
  std::byte* scratch;  // [kScratchBytes], on the device
  std::byte* results;  // [kResultBytes], pinned
  int64_t n_multiprocessors;
  // See CudaOptions.
  CudaOptions::TensorAttention tensor_attention;
  int64_t prompt_product_rows;
  int64_t half_product_rows;
  bool prefetches_weights;
};

absl::Status GetRows(const Context& context, const GetRowsArgs& args);
// The last numbers of rows whose products have the same kernels: see
// DeviceInfo::step_rows.
std::vector<int64_t> StepRows(const Context& context);
// Those of one type that read the same activations are one launch.
void MatMuls(const Context& context, std::span<const MatMulArgs> products);
// Outputs of a product saturate at args.soft_cap.
void SoftCap(const Context& context, const MatMulArgs& args);
void AddBiases(const Context& context, std::span<const AddBiasArgs> list);
// A product's float32 path: exact weights on `x`.
void MatMulFloat(const Context& context, const MatMulArgs& args);
void RmsNorm(const Context& context, const RmsNormArgs& args);
void AddNorm(const Context& context, const AddNormArgs& args);
void PackActivations(const Context& context, const PackActivationsArgs& args);
absl::Status RopeAngles(const Context& context, const RopeAnglesArgs& args);
void Rope(const Context& context, const RopeArgs& args);
absl::Status StoreRows(const Context& context, const StoreRowsArgs& args);
absl::Status CopyRows(const Context& context, const CopyRowsArgs& args);
absl::Status PrepareHeads(const Context& context, const PrepareHeadsArgs& args);
absl::Status Attention(const Context& context, const AttentionArgs& args);
void GatedActivation(const Context& context, const GatedActivationArgs& args);
// Waits for the result.
absl::Status TopK(const Context& context, const TopKArgs& args);
// Waits for the result.
absl::StatusOr<SampledToken> Sample(const Context& context,
                                    const SampleArgs& args);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_OPS_H_
