// Rates of a device for comparison with kernels: the rate of copies in its
// memory and of its vendor's matrix products. For benchmarks; a worker does not
// link this.
#ifndef PLIMSOLL_KERNELS_CUDA_DEVICE_RATES_H_
#define PLIMSOLL_KERNELS_CUDA_DEVICE_RATES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace plimsoll::kernels::cuda {

// Driver, runtime and clocks, for a report.
absl::StatusOr<std::string> DescribeDevice(int device);

// Bytes of the device that nobody has allocated.
absl::StatusOr<int64_t> FreeBytes(int device);

// Bytes read and written per second by copies of `bytes` in the device's
// memory: the median of several.
absl::StatusOr<double> CopyBytesPerSecond(int device, int64_t bytes);

// Operations per second (two for a multiply-add) of cuBLAS on bf16 matrices of
// random numbers, [m, k] x [k, n] to float32: the median of several.
// Errors: kUnimplemented if the machine has no cuBLAS library.
absl::StatusOr<double> MatrixOperationsPerSecond(int device, int64_t m,
                                                 int64_t n, int64_t k);

}  // namespace plimsoll::kernels::cuda

#endif  // PLIMSOLL_KERNELS_CUDA_DEVICE_RATES_H_
