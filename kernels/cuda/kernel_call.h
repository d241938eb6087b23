// One launch of a kernel as a value: the kernel, its grid and a copy of its
// arguments.
#ifndef PLIMSOLL_KERNELS_CUDA_KERNEL_CALL_H_
#define PLIMSOLL_KERNELS_CUDA_KERNEL_CALL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/runtime.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
  bool operator==(const Grid&) const = default;
};

#ifdef PLIMSOLL_CUDA_EMULATED
using Dimensions = Dim3;
#else
using Dimensions = dim3;
#endif

inline Dimensions DimensionsOf(const Grid& grid) {
  return {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
          static_cast<unsigned>(grid.z)};
}

// Shared memory of a block: the bytes that every device of compute capability
// 8.0 or later gives on request (a LaunchQueue requests them), and the bytes
// without a request.
inline constexpr int64_t kMaxSharedBytes = int64_t{99} << 10;
// The limits of devices of compute capability 9.0.
inline constexpr int64_t kMostSharedBytes = int64_t{227} << 10;
inline constexpr int64_t kUnaskedSharedBytes = int64_t{48} << 10;

class KernelCall {
 public:
  static constexpr int kMaxArguments = 12;
  static constexpr size_t kMaxBytes = 640;  // all arguments together

  const void* kernel = nullptr;
  // Runs the kernel on the emulator; null on a device.
  void (*emulate)(const KernelCall& call) = nullptr;
  Grid grid = {};
  int n_threads = 0;
  int64_t shared_bytes = 0;

  template <class T>
  void Add(const T& argument) {
    n_bytes_ = (n_bytes_ + alignof(T) - 1) / alignof(T) * alignof(T);
    at_[static_cast<size_t>(n_arguments_++)] = static_cast<uint16_t>(n_bytes_);
    std::memcpy(bytes_.data() + n_bytes_, &argument, sizeof(T));
    n_bytes_ += sizeof(T);
  }
  int n_arguments() const { return n_arguments_; }
  const std::byte* Argument(int i) const {
    return bytes_.data() + at_[static_cast<size_t>(i)];
  }

  bool IsSame(const KernelCall& other) const {
    return kernel == other.kernel && grid == other.grid &&
           n_threads == other.n_threads && shared_bytes == other.shared_bytes &&
           n_bytes_ == other.n_bytes_ &&
           std::memcmp(bytes_.data(), other.bytes_.data(), n_bytes_) == 0;
  }

 private:
  int n_arguments_ = 0;
  size_t n_bytes_ = 0;
  std::array<uint16_t, kMaxArguments> at_ = {};
  // The bytes between arguments are zero.
  alignas(16) std::array<std::byte, kMaxBytes> bytes_ = {};
};

// Queues the call. Its errors come with the next LaunchStatus() or
// synchronisation.
void Run(const KernelCall& call, Stream stream);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_KERNEL_CALL_H_
