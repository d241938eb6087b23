// How the system is set up to give out memory: swap, huge pages, and whether it
// promises more than it has.
#ifndef PLIMSOLL_WORKER_DEVICE_MEMORY_SETTINGS_H_
#define PLIMSOLL_WORKER_DEVICE_MEMORY_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::worker {

struct MemorySettings {
  // Swap of the machine, in all and free. Absent where it cannot be read.
  std::optional<int64_t> swap_bytes;
  std::optional<int64_t> free_swap_bytes;
  // When the system uses transparent huge pages: "always", "madvise" or
  // "never". Empty where it does not say.
  std::string huge_pages;
  // Bytes that may still be mapped if the system promises no more memory than
  // it has (vm.overcommit_memory = 2). Absent where it promises more.
  std::optional<int64_t> mappable_bytes;
};

// `root` is put in front of every path that is read, for tests.
MemorySettings ReadMemorySettings(const std::string& root = "");

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_MEMORY_SETTINGS_H_
