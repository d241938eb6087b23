#include "services/cli/doctor/cpu.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/path_timing.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/thread_pool.h"
#include "worker/device/cgroup.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

// Vectors of 128 bits or none, as Highway names them on x86 and elsewhere.
constexpr std::array<absl::string_view, 5> kSlowVectors = {
    "SSE2", "SSSE3", "SSE4", "EMU128", "SCALAR"};

// What the CPU announces and cannot run, and what to do about it. Both are
// empty if there is no such thing.
struct AmxProblem {
  absl::string_view found;
  absl::string_view fix;
};
AmxProblem ProblemOf(kernels::AmxState amx) {
  switch (amx) {
    case kernels::AmxState::kNotSaved:
      return {"the CPU announces AMX, but the system does not save its state",
              "start a Linux kernel of 5.16 or newer that has AMX switched on; "
              "until then prompts take longer"};
    case kernels::AmxState::kNotAllowed:
      return {
          "the CPU announces AMX, but the system does not permit it",
          "let the sandbox or seccomp profile allow "
          "arch_prctl(ARCH_REQ_XCOMP_PERM); until then prompts take longer"};
    case kernels::AmxState::kTraps:
      return {"the CPU announces AMX, but its instructions trap",
              "run on a machine, hypervisor or sandbox that runs AMX, or have "
              "it not announced; until then prompts take longer"};
    case kernels::AmxState::kAbsent:
    case kernels::AmxState::kRuns:
      break;
  }
  return {"", ""};
}

}  // namespace

CpuReadings ReadCpu() {
  kernels::TimeCpuTargets();
  return {.brand = kernels::CpuBrand(),
          .path = kernels::CpuTarget(),
          .vectors = kernels::CpuVectors(),
          .amx = kernels::ProbeAmx(),
          .n_usable = worker::UsableThreads(),
          .n_machine = sysconf(_SC_NPROCESSORS_ONLN),
          .n_quota = worker::ReadCgroupCpus()};
}

Diagnosis CheckCpuPath(const CpuReadings& cpu) {
  Diagnosis found{.name = "cpu path",
                  .found = absl::StrCat(cpu.path, " on ", cpu.brand)};
  if (std::ranges::find(kSlowVectors, cpu.vectors) != kSlowVectors.end()) {
    found.health = Health::kWarning;
    absl::StrAppend(&found.found, ", with vectors of 128 bits or none");
    found.fix =
        "run on a CPU with AVX2; in a virtual machine, let the hypervisor show "
        "the host's CPU (QEMU: -cpu host)";
    return found;
  }
  const AmxProblem amx = ProblemOf(cpu.amx);
  if (amx.found.empty()) return found;
  found.health = Health::kWarning;
  absl::StrAppend(&found.found, "; ", amx.found);
  found.fix = std::string(amx.fix);
  return found;
}

Diagnosis CheckCpuCount(const CpuReadings& cpu) {
  Diagnosis found{.name = "cpus",
                  .found = absl::StrCat("a model computes on ", cpu.n_usable,
                                        " of ", cpu.n_machine, " CPUs")};
  if (cpu.n_usable >= cpu.n_machine) return found;
  if (cpu.n_quota.has_value() && *cpu.n_quota <= cpu.n_usable) {
    absl::StrAppend(&found.found, ": the cgroup's quota");
  } else if (cpu.n_usable >= kernels::ThreadPool::kMaxThreads) {
    absl::StrAppend(&found.found, ", and never on more");
  } else {
    absl::StrAppend(&found.found, ": this process may use no others");
  }
  return found;
}

}  // namespace plimsoll::cli
