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

// Of tensors and regions: a cache line.
inline constexpr int64_t kCpuAlignment = 64;
inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

int64_t PhysicalMemoryBytes();

// One anonymous mapping of `bytes` rounded up to 2 MiB, aligned to 2 MiB, huge
// pages advised, spread over the memory nodes where there are several. `touch`
// gets the range in chunks of kMaxChunkBytes at most, whole huge pages, and
// writes zeros to every page of them, so that they are resident. `fence` is
// asked before each chunk; if it fails, the mapping is given back.
// Errors: kInvalidArgument if bytes <= 0; kResourceExhausted with the bytes
// wanted if the system refuses; those of the fence.
absl::StatusOr<Buffer> AllocateHuge(
    int64_t bytes, ChunkFence fence,
    absl::FunctionRef<void(std::byte* data, int64_t)> touch);
// As above, without a fence.
inline absl::StatusOr<Buffer> AllocateHuge(
    int64_t bytes, absl::FunctionRef<void(std::byte* data, int64_t)> touch) {
  return AllocateHuge(
      bytes, [](int64_t) { return absl::OkStatus(); }, touch);
}

// Errors: kInvalidArgument if the sizes differ in the wrong direction: `to`
// must hold `from_bytes`, of which all are copied.
absl::Status CopyChecked(const std::byte* from, int64_t from_bytes,
                         std::byte* to, int64_t to_bytes);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_MEMORY_H_
