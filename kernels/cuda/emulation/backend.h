// The CUDA backend on the emulator, for tests beside a device's or without one.
#ifndef PLIMSOLL_KERNELS_CUDA_EMULATION_BACKEND_H_
#define PLIMSOLL_KERNELS_CUDA_EMULATION_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

absl::StatusOr<std::unique_ptr<Backend>> NewEmulatedCudaBackend(
    const CudaOptions& options = {});
// Of the one emulated device, which all its backends share.
absl::StatusOr<DeviceMemory> ReadEmulatedCudaMemory();

// Of all graphs of the emulated device since the program began.
struct EmulatedGraphCounts {
  int64_t built = 0;
  int64_t launched = 0;
};
EmulatedGraphCounts ReadEmulatedGraphCounts();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CUDA_EMULATION_BACKEND_H_
