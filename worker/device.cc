#include "worker/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/checked_math.h"
#include "kernels/cpu/thread_pool.h"

namespace plimsoll::worker {
namespace {

// First line of a small pseudo file, or nothing.
std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// A file that holds one number; "max" and absent files are nothing.
std::optional<int64_t> ReadNumber(const std::string& path) {
  const std::optional<std::string> line = ReadLine(path);
  int64_t value = 0;
  if (!line || !absl::SimpleAtoi(*line, &value)) return std::nullopt;
  return value;
}

// The value of "Key:   123 kB" in /proc/meminfo or /proc/self/status, in bytes.
std::optional<int64_t> ReadKilobytes(const std::string& path,
                                     absl::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, key)) continue;
    if (!absl::ConsumePrefix(&rest, ":")) continue;
    int64_t kilobytes = 0;
    absl::ConsumeSuffix(&rest, "kB");
    if (absl::SimpleAtoi(rest, &kilobytes)) return kilobytes * 1024;
  }
  return std::nullopt;
}

// This process's cgroup v2 folder, or v1's for `controller`.
std::string CgroupFolder(absl::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::string v1;
  while (std::getline(file, line)) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      std::string v2 = absl::StrCat("/sys/fs/cgroup", parts[2]);
      if (access(absl::StrCat(v2, "/cgroup.controllers").c_str(), R_OK) == 0) {
        return v2;
      }
    }
    for (absl::string_view name : absl::StrSplit(parts[1], ',')) {
      if (name == controller) {
        v1 = absl::StrCat("/sys/fs/cgroup/", std::string(controller), parts[2]);
      }
    }
  }
  return v1.empty() ? "/sys/fs/cgroup" : v1;
}

struct CgroupMemory {
  int64_t limit;
  int64_t used;
};

std::optional<CgroupMemory> ReadCgroupMemory() {
  const std::string folder = CgroupFolder("memory");
  std::optional<int64_t> limit = ReadNumber(folder + "/memory.max");
  std::optional<int64_t> used = ReadNumber(folder + "/memory.current");
  if (!limit) limit = ReadNumber(folder + "/memory.limit_in_bytes");
  if (!used) used = ReadNumber(folder + "/memory.usage_in_bytes");
  if (!limit || !used) return std::nullopt;
  return CgroupMemory{*limit, *used};
}

int64_t PhysicalBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

// CPUs that the cgroup's quota allows, rounded up, or nothing.
std::optional<int> CgroupCpus() {
  const std::string folder = CgroupFolder("cpu");
  if (const auto line = ReadLine(folder + "/cpu.max")) {
    const std::vector<std::string> parts = absl::StrSplit(*line, ' ');
    int64_t quota = 0;
    int64_t period = 0;
    if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &quota) &&
        absl::SimpleAtoi(parts[1], &period) && quota > 0 && period > 0) {
      return static_cast<int>(CeilDiv(quota, period));
    }
    return std::nullopt;
  }
  const auto quota = ReadNumber(folder + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<int>(CeilDiv(*quota, *period));
}

}  // namespace

int64_t TotalMemoryBytes() {
  int64_t total = PhysicalBytes();
  if (const auto cgroup = ReadCgroupMemory()) {
    total = std::min(total, cgroup->limit);
  }
  return total;
}

int64_t AvailableMemoryBytes() {
  int64_t available =
      ReadKilobytes("/proc/meminfo", "MemAvailable").value_or(PhysicalBytes());
  if (const auto cgroup = ReadCgroupMemory()) {
    available =
        std::min(available, std::max<int64_t>(0, cgroup->limit - cgroup->used));
  }
  return available;
}

int UsableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const auto quota = CgroupCpus()) cpus = std::min(cpus, *quota);
  return std::clamp(cpus, 1, kernels::ThreadPool::kMaxThreads);
}

int64_t PeakResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmHWM").value_or(0);
}

int64_t ResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmRSS").value_or(0);
}

int64_t ExactResidentBytes() {
  const auto bytes = ReadKilobytes("/proc/self/smaps_rollup", "Rss");
  return bytes ? *bytes : ResidentBytes();
}

bool ResetPeakResidentBytes() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // proc(5)
  return file.good();
}

planner::DeviceProfile ProfileOf(const kernels::DeviceInfo& info) {
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.id = info.id;
  profile.kind = info.kind;
  profile.name = info.name;
  profile.total_bytes = info.total_bytes;
  profile.free_bytes = info.free_bytes;
  profile.alignment = info.alignment;
  profile.storage.clear();
  for (const kernels::StorageFact& fact : info.storage) {
    profile.storage.push_back({fact.dtype, fact.row_multiple});
  }
  profile.workspace.activation_block = info.activation_block;
  profile.workspace.activation_block_bytes = info.activation_block_bytes;
  // The CPU backend's scratch is the process's own memory, not the arena's: it
  // counts as runtime.
  const bool owns_scratch = info.kind == "cpu";
  profile.workspace.kernel_scratch_bytes =
      owns_scratch ? 0 : info.scratch_bytes;
  if (!info.is_host_memory) {
    const planner::DeviceProfile committed = planner::CommittedGpuProfile();
    profile.runtime_bytes = committed.runtime_bytes;
    profile.runtime_basis = committed.runtime_basis;
    profile.runtime_note = committed.runtime_note;
  }
  return profile;
}

planner::DeviceProfile LocalCpuProfile() {
  kernels::ThreadPool pool(1, /*pin=*/false);
  const auto backend = kernels::NewCpuBackend(pool);
  planner::DeviceProfile profile = ProfileOf(backend->Device());
  profile.total_bytes = TotalMemoryBytes();
  profile.free_bytes = AvailableMemoryBytes();
  return profile;
}

}  // namespace plimsoll::worker
