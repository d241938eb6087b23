// A device's free memory as its driver counts it, without a context.
#ifndef PLIMSOLL_KERNELS_CUDA_DRIVER_MEMORY_H_
#define PLIMSOLL_KERNELS_CUDA_DRIVER_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::kernels::cuda {

// Free bytes of the device at the PCI address `bus_id`, as the driver's
// management library (NVML) reports them. Returns nullopt if the library is
// missing or does not know the device, for example a part of a device.
std::optional<int64_t> DriverFreeBytes(const std::string& bus_id);

}  // namespace plimsoll::kernels::cuda

#endif  // PLIMSOLL_KERNELS_CUDA_DRIVER_MEMORY_H_
