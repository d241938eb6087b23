// A device's free memory as its driver counts it, without a context.
#ifndef PLIMSOLL_KERNELS_CUDA_DRIVER_MEMORY_H_
#define PLIMSOLL_KERNELS_CUDA_DRIVER_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::kernels::cuda {

// Free bytes of the device at the PCI address `bus_id`, by the management
// library (NVML) that comes with the driver; nullopt where it is not there or
// does not know the device, such as a part of one.
std::optional<int64_t> DriverFreeBytes(const std::string& bus_id);

}  // namespace plimsoll::kernels::cuda

#endif  // PLIMSOLL_KERNELS_CUDA_DRIVER_MEMORY_H_
