// Host memory for the CPU backends: huge-page mappings that are resident.
#ifndef PLIMSOLL_KERNELS_MEMORY_H_
#define PLIMSOLL_KERNELS_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"

namespace plimsoll::kernels {

// Tensors and regions begin at multiples of a cache line.
inline constexpr int64_t kCpuAlignment = 64;
inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

int64_t PhysicalMemoryBytes();

// Makes one anonymous mapping of `bytes` rounded up to 2 MiB, aligned to 2 MiB,
// with huge pages advised, spread over the memory nodes where there are
// several. `touch` gets the range in chunks of at most kMaxChunkBytes, in whole
// huge pages, and writes zeros to every page, so that all are resident. `fence`
// is called before each chunk; if it fails, the mapping is given back.
// Errors: kInvalidArgument if bytes <= 0; kResourceExhausted with the bytes
// wanted if the system refuses; the fence's errors.
absl::StatusOr<Buffer> AllocateHuge(
    int64_t bytes, ChunkFence fence,
    absl::FunctionRef<void(std::byte* data, int64_t)> touch);
// AllocateHuge without a fence.
inline absl::StatusOr<Buffer> AllocateHuge(
    int64_t bytes, absl::FunctionRef<void(std::byte* data, int64_t)> touch) {
  return AllocateHuge(
      bytes, [](int64_t) { return absl::OkStatus(); }, touch);
}

// Copies `from_bytes` bytes from `from` to `to`.
// Errors: kInvalidArgument if to_bytes < from_bytes.
absl::Status CopyChecked(const std::byte* from, int64_t from_bytes,
                         std::byte* to, int64_t to_bytes);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_MEMORY_H_
