// Checks every value of a tensor: finds values that are not finite or far too
// large, and matrices that are zero.
#ifndef PLIMSOLL_WORKER_DEVICE_TENSOR_VALUES_H_
#define PLIMSOLL_WORKER_DEVICE_TENSOR_VALUES_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/thread_pool.h"
#include "planner/gguf/gguf_header.h"
#include "worker/device/model_file.h"

namespace plimsoll::worker {

// The largest finite F16. Products of many rows on a GPU round weights to F16,
// where a larger value is infinite. Trained weights are far below this limit:
// values above some hundreds are rare. A damaged scale often gives larger ones.
inline constexpr float kLargestWeight = 65'504;

// Statistics of the values of one tensor. An index counts the tensor's values
// in the file's order.
struct TensorValues {
  int64_t n_values = 0;
  int64_t n_not_finite = 0;       // NaN or infinite
  int64_t first_not_finite = -1;  // index; -1 = none
  int64_t n_too_large = 0;        // finite, of magnitude > kLargestWeight
  int64_t first_too_large = -1;
  float largest = 0;            // magnitude of a finite value
  int64_t n_matrices = 0;       // experts; 1 for most tensors
  int64_t n_zero_matrices = 0;  // matrices with only zeros
  int64_t first_zero_matrix = -1;
};

// Reads `tensor`, which is one of file.header(), chunk by chunk. Threads of
// `pool` share each chunk. `fence` is called before each chunk, with the
// tensor's bytes that are done; its error ends the reading.
// Errors: those of ModelFile::Read and of `fence`; kUnimplemented unless
// kernels::IsWeightType(tensor.dtype).
using TensorFence = std::function<absl::Status(int64_t bytes_done)>;
absl::StatusOr<TensorValues> ReadTensorValues(ModelFile& file,
                                              const planner::GgufTensor& tensor,
                                              kernels::ThreadPool& pool,
                                              const TensorFence& fence);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_TENSOR_VALUES_H_
