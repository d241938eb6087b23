#include "services/cli/doctor/memory.h"

#include "absl/strings/str_cat.h"
#include "kernels/memory.h"
#include "services/cli/terminal/bytes.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {

MemoryReadings ReadMemory(const std::string& root) {
  return {.available_bytes = worker::AvailableMemoryBytes(root),
          .physical_bytes = kernels::PhysicalMemoryBytes(),
          .cgroup = worker::ReadCgroupMemory(root),
          .cgroup_swap_bytes = worker::ReadCgroupSwap(root),
          .settings = worker::ReadMemorySettings(root)};
}

Diagnosis CheckAvailable(const MemoryReadings& memory) {
  if (memory.available_bytes > 0) {
    return {.name = "memory",
            .found = absl::StrCat(FormatBytes(memory.available_bytes), " of ",
                                  FormatBytes(memory.physical_bytes),
                                  " are available to models")};
  }
  return {.name = "memory",
          .health = Health::kError,
          .found =
              "no memory is available, or it cannot be read, which counts "
              "as none",
          .fix =
              "end other processes or raise the cgroup's limit, and let "
              "this user read /proc/meminfo and the cgroup's memory.* "
              "files"};
}

Diagnosis CheckCgroup(const MemoryReadings& memory) {
  if (!memory.cgroup.ok()) {
    return {.name = "cgroup",
            .health = Health::kError,
            .found = absl::StrCat("a limit of memory cannot be read: ",
                                  memory.cgroup.status().message()),
            .fix =
                "let this user read that file; until then no memory counts "
                "as free"};
  }
  const worker::CgroupMemory& cgroup = *memory.cgroup;
  // A number beyond the machine's memory is how version 1 says "no limit".
  if (!cgroup.limit_bytes || *cgroup.limit_bytes >= memory.physical_bytes) {
    return {.name = "cgroup", .found = "no limit below the machine's memory"};
  }
  Diagnosis found{
      .name = "cgroup",
      .found = absl::StrCat("the limit is ", FormatBytes(*cgroup.limit_bytes),
                            " (", cgroup.limit_file, ")")};
  if (cgroup.available_bytes) {
    absl::StrAppend(&found.found, ", ", FormatBytes(*cgroup.available_bytes),
                    " are left");
  }
  return found;
}

Diagnosis CheckSwap(const MemoryReadings& memory) {
  const std::optional<int64_t> swap = memory.settings.swap_bytes;
  if (!swap) {
    return {.name = "swap",
            .health = Health::kSkipped,
            .found = "the system does not say whether it has swap"};
  }
  if (*swap == 0) return {.name = "swap", .found = "none"};
  if (memory.cgroup_swap_bytes == 0) {
    return {.name = "swap",
            .found = absl::StrCat(FormatBytes(*swap),
                                  ", of which this cgroup may use none")};
  }
  const int64_t free = memory.settings.free_swap_bytes.value_or(*swap);
  return {.name = "swap",
          .health = Health::kWarning,
          .found = absl::StrCat(
              FormatBytes(*swap), ", ", FormatBytes(*swap - free),
              " in use: a model that is swapped out is slow, and its memory "
              "counts as free though it comes back"),
          .fix =
              "swapoff -a, and no swap in /etc/fstab; or none for this "
              "cgroup (systemd: MemorySwapMax=0)"};
}

Diagnosis CheckHugePages(const MemoryReadings& memory) {
  const std::string& state = memory.settings.huge_pages;
  if (state.empty()) {
    return {.name = "huge pages",
            .health = Health::kSkipped,
            .found =
                "the system does not say whether it has transparent huge "
                "pages"};
  }
  if (state != "never") {
    return {
        .name = "huge pages",
        .found = absl::StrCat("transparent huge pages are on (", state, ")")};
  }
  return {.name = "huge pages",
          .health = Health::kWarning,
          .found = "transparent huge pages are off, which makes steps slower",
          .fix =
              "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, "
              "as root, at every start of the machine"};
}

Diagnosis CheckOvercommit(const MemoryReadings& memory) {
  const std::optional<int64_t> mappable = memory.settings.mappable_bytes;
  if (!mappable) {
    return {.name = "overcommit", .found = "the system limits no mappings"};
  }
  Diagnosis found{
      .name = "overcommit",
      .found = absl::StrCat("the system maps at most ", FormatBytes(*mappable),
                            " more (vm.overcommit_memory is 2)")};
  if (*mappable >= memory.available_bytes) return found;
  found.health = Health::kWarning;
  absl::StrAppend(&found.found, ", so a load may fail though ",
                  FormatBytes(memory.available_bytes), " are available");
  found.fix =
      "sysctl -w vm.overcommit_memory=0, or a larger vm.overcommit_ratio";
  return found;
}

}  // namespace plimsoll::cli
