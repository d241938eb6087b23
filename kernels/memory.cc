// A mapping is made 2 MiB too long and cut at both ends, so that it is aligned.
#include "kernels/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/memory_nodes.h"

namespace plimsoll::kernels {

int64_t PhysicalMemoryBytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
}

absl::StatusOr<Buffer> AllocateHuge(
    int64_t bytes, ChunkFence fence,
    absl::FunctionRef<void(std::byte* data, int64_t)> touch) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("an allocation of ", bytes, " bytes"));
  }
  const auto refused = [bytes] {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system has no ", bytes, " bytes to map"));
  };
  if (bytes > std::numeric_limits<int64_t>::max() - 2 * kHugePageBytes) {
    return refused();
  }
  const int64_t rounded =
      (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const auto mapped_bytes = static_cast<size_t>(rounded + kHugePageBytes);
  void* mapping = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return refused();
  auto* begin = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  const size_t head = (static_cast<size_t>(kHugePageBytes) -
                       address % static_cast<size_t>(kHugePageBytes)) %
                      static_cast<size_t>(kHugePageBytes);
  std::byte* data = begin + head;
  const size_t tail = static_cast<size_t>(kHugePageBytes) - head;
  if (head != 0) munmap(begin, head);
  if (tail != 0) munmap(data + rounded, tail);
  (void)madvise(data, static_cast<size_t>(rounded), MADV_HUGEPAGE);  // advice
  // It holds keys and values of prompts, which no core dump may have.
  (void)madvise(data, static_cast<size_t>(rounded), MADV_DONTDUMP);
  const MemoryNodes nodes = NodesToSpreadOver();
  if (nodes.count() > 1) (void)InterleavePages(data, rounded, nodes);
  Buffer buffer(data, rounded, [](std::byte* freed, int64_t size) {
    munmap(freed, static_cast<size_t>(size));
  });
  static_assert(kMaxChunkBytes % kHugePageBytes == 0);
  for (int64_t done = 0; done < rounded; done += kMaxChunkBytes) {
    RETURN_IF_ERROR(fence(done));
    touch(data + done, std::min(kMaxChunkBytes, rounded - done));
  }
  return buffer;
}

absl::Status CopyChecked(const std::byte* from, int64_t from_bytes,
                         std::byte* to, int64_t to_bytes) {
  if (from_bytes > to_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copying ", from_bytes, " bytes into a buffer of ", to_bytes));
  }
  std::memcpy(to, from, static_cast<size_t>(from_bytes));
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels
