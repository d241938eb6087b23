// The CUDA backend's factories in builds without CUDA.
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {
namespace {

absl::Status NoCuda() {
  return absl::UnimplementedError("this build has no CUDA kernels");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(
    int /*device*/, const CudaOptions& /*options*/) {
  return NoCuda();
}

absl::StatusOr<DeviceMemory> ReadCudaMemory(int /*device*/) { return NoCuda(); }

}  // namespace plimsoll::kernels
