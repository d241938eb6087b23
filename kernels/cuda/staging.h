// A pinned ring that copies host spans of operations to the device without
// waiting for the device.
#ifndef PLIMSOLL_KERNELS_CUDA_STAGING_H_
#define PLIMSOLL_KERNELS_CUDA_STAGING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// A backend owns it and calls it from its thread. Staged data stays valid for
// the kernels that are queued before kBuffers - 1 more buffers are full. The
// stream's order protects the device's copy; events protect the pinned copy.
class Staging {
 public:
  static constexpr int64_t kBuffers = 4;
  // Bytes of the largest span of one operation, a quarter of the ring: enough
  // for the page table of 16 million tokens.
  static constexpr int64_t kBufferBytes = int64_t{8} << 20;
  static constexpr int64_t kBytes = kBuffers * kBufferBytes;
  static constexpr int64_t kAlignment = 16;

  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // `device` holds kBytes and outlives this object.
  absl::Status Open(std::byte* device, Stream stream);

  // Copies `host` and returns the copy's device address. The memory of `host`
  // may be reused afterwards. Errors: kResourceExhausted for more than
  // kBufferBytes.
  absl::StatusOr<const std::byte*> Put(std::span<const std::byte> host);

  template <class T>
  absl::StatusOr<const T*> PutSpan(std::span<const T> host) {
    absl::StatusOr<const std::byte*> data = Put(std::as_bytes(host));
    if (!data.ok()) return data.status();
    return reinterpret_cast<const T*>(*data);
  }

 private:
  absl::Status EnterNextBuffer();

  Stream stream_ = {};
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  std::array<Event, kBuffers> left_ = {};  // recorded when a buffer was full
  int64_t buffer_ = 0;
  int64_t used_ = 0;  // bytes of the current buffer
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_STAGING_H_
