// The system's memory settings: swap, huge pages and overcommit.
#ifndef PLIMSOLL_WORKER_DEVICE_MEMORY_SETTINGS_H_
#define PLIMSOLL_WORKER_DEVICE_MEMORY_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::worker {

struct MemorySettings {
  // Bytes of the machine's swap, in all and free. Absent if they cannot be
  // read.
  std::optional<int64_t> swap_bytes;
  std::optional<int64_t> free_swap_bytes;
  // The system's use of transparent huge pages: "always", "madvise" or "never".
  // Empty if unknown.
  std::string huge_pages;
  // Bytes that may still be mapped if the system promises no more memory than
  // it has (vm.overcommit_memory = 2). Absent if the system overcommits.
  std::optional<int64_t> mappable_bytes;
};

// `root` is put in front of every path that is read, for tests.
MemorySettings ReadMemorySettings(const std::string& root = "");

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_MEMORY_SETTINGS_H_
