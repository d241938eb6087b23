// The CUDA backend on the emulator, for tests with or without a device.
#ifndef PLIMSOLL_KERNELS_CUDA_EMULATED_BACKEND_H_
#define PLIMSOLL_KERNELS_CUDA_EMULATED_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

absl::StatusOr<std::unique_ptr<Backend>> NewEmulatedCudaBackend(
    const CudaOptions& options = {});
// The memory of the one emulated device, which all emulated backends share.
absl::StatusOr<DeviceMemory> ReadEmulatedCudaMemory();

// Counts of all graphs of the emulated device since the program began.
struct EmulatedGraphCounts {
  int64_t built = 0;
  int64_t launched = 0;
};
EmulatedGraphCounts ReadEmulatedGraphCounts();

}  // namespace plimsoll::kernels

namespace plimsoll::kernels::cuda_emulated {

// The refusals of the emulated driver for graphs whose kernels overlap.
struct Refusals {
  bool graphs = false;   // refuses to make them
  bool updates = false;  // refuses to change their calls
};

// The refusals of the emulated driver, which tests set. Not thread-safe.
Refusals& DriverRefusals();

}  // namespace plimsoll::kernels::cuda_emulated

#endif  // PLIMSOLL_KERNELS_CUDA_EMULATED_BACKEND_H_
