#include "worker/device/host_resources.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/thread_pool.h"
#include "worker/device/cgroup.h"
#include "worker/device/compute_device.h"
#include "worker/device/kernel_file.h"

namespace plimsoll::worker {
namespace {

std::optional<int64_t> ReadBytesOfKey(const std::string& path,
                                      absl::string_view key) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  if (!text.ok()) return std::nullopt;
  return BytesOfKey(*text, key);
}

int64_t PhysicalBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int64_t TotalMemoryBytes() {
  const int64_t total = PhysicalBytes();
  const absl::StatusOr<CgroupMemory> cgroup = ReadCgroupMemory();
  if (!cgroup.ok()) return total;
  return std::min(total, cgroup->limit_bytes.value_or(total));
}

int64_t AvailableMemoryBytes(const std::string& root) {
  const absl::StatusOr<CgroupMemory> cgroup = ReadCgroupMemory(root);
  if (!cgroup.ok()) return 0;
  const absl::StatusOr<std::string> meminfo =
      ReadKernelFile(root + "/proc/meminfo");
  int64_t available = 0;
  if (meminfo.ok()) {
    available = BytesOfKey(*meminfo, "MemAvailable").value_or(0);
  } else if (absl::IsNotFound(meminfo.status())) {
    available = PhysicalBytes();  // a machine without /proc
  }
  return std::min({available, cgroup->limit_bytes.value_or(available),
                   cgroup->available_bytes.value_or(available)});
}

int UsableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  const int64_t allowed = ReadCgroupCpus().value_or(cpus);
  return static_cast<int>(std::clamp<int64_t>(
      std::min<int64_t>(cpus, allowed), 1, kernels::ThreadPool::kMaxThreads));
}

int64_t PeakResidentBytes() {
  return ReadBytesOfKey("/proc/self/status", "VmHWM").value_or(0);
}

int64_t ResidentBytes() {
  return ReadBytesOfKey("/proc/self/status", "VmRSS").value_or(0);
}

int64_t ExactResidentBytes() {
  const auto bytes = ReadBytesOfKey("/proc/self/smaps_rollup", "Rss");
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
  profile.workspace.max_candidates = kernels::kMaxCandidates;
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
  kernels::ThreadPool pool(1, kernels::WorkerCpus::kAny);
  const auto backend = kernels::NewCpuBackend(pool);
  planner::DeviceProfile profile = ProfileOf(backend->Device());
  profile.total_bytes = TotalMemoryBytes();
  profile.free_bytes = AvailableMemoryBytes();
  return profile;
}

std::optional<int64_t> HostBudgetBytes(const planner::LoadOptions& options,
                                       const ComputeDevice* device) {
  const std::optional<int64_t>& budget = options.host_budget_bytes;
  if (device == nullptr || device->is_host()) return budget;
  if (options.n_cpu_experts == 0) return budget;
  const int64_t free_bytes = AvailableMemoryBytes();
  return std::min(budget.value_or(free_bytes), free_bytes);
}

}  // namespace plimsoll::worker
