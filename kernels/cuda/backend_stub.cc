// The CUDA backend's factory in builds without CUDA.
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(
    int /*device*/, const CudaOptions& /*options*/) {
  return absl::UnimplementedError("this build has no CUDA kernels");
}

}  // namespace plimsoll::kernels
