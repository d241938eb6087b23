// plimsoll-worker: loads models exactly to their plan and serves them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/background.h"
#include "services/host/clock.h"
#include "services/host/crash/core_dumps.h"
#include "services/host/crash/crash_report.h"
#include "services/host/device_list.h"
#include "services/host/heap.h"
#include "services/host/lock_checks.h"
#include "services/host/random_id.h"
#include "services/host/runtime/runtime_store.h"
#include "services/server/flags.h"
#include "services/server/server.h"
#include "services/worker/models/options.h"
#include "services/worker/process/worker_devices.h"
#include "services/worker/process/worker_flags.h"
#include "services/worker/process/worker_process.h"
#include "services/worker/process/worker_reload.h"
#include "worker/device/compute_device.h"

namespace plimsoll::services {
namespace {

// This host's name, so that devices of several hosts differ.
std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

void FillDefaults(WorkerOptions& options) {
  if (options.profile_folder.empty()) {
    options.profile_folder = DefaultProfileFolder();
  }
  options.clock = BootTime;
  // The first process of a container has the same pid in each of its lives, of
  // which one may have found the device unhealthy.
  const std::string life = getpid() == 1 ? "-" + RandomId().substr(0, 8) : "";
  options.holder = absl::StrCat(HostName(), "/", getpid(), life);
}

// Opens the devices of `flags` and puts them into `options`.
absl::StatusOr<ComputeDevices> FillDevices(const DeviceFlags& flags,
                                           WorkerOptions& options) {
  ASSIGN_OR_RETURN(ComputeDevices devices,
                   OpenDevices(flags.names, options.precision));
  std::vector<const worker::ComputeDevice*> opened;
  for (const auto& device : devices) opened.push_back(device.get());
  ASSIGN_OR_RETURN(
      options.devices,
      DescribeDevices(flags, options.planner.empty() ? "" : HostName(),
                      opened));
  return devices;
}

int Main(int argc, char** argv) {
  ReportCrashes();
  KeepHeapSmall();
  DisableLockChecks();
  HoldSignals();
  WorkerFlags flags;
  if (const auto code = ParseWorkerFlags(argc, argv, flags)) return *code;
  if (!flags.server.allows_core_dumps) ForbidCoreDumps();
  WorkerReload reload = {.in_effect = flags.settings, .read_again = nullptr};
  if (!flags.settings.path.empty()) {
    HoldHangup();
    reload.read_again = [=] { return ReadWorkerFlagsAgain(argc, argv); };
  }
  WorkerOptions& options = flags.options;
  options.drain_timeout = flags.server.drain_timeout;
  const auto devices = FillDevices(flags.devices, options);
  if (!devices.ok()) return ExitCode(devices.status());
  FillDefaults(options);
  return ExitCode(NeedsThreads([&] {
    return RunWorker(flags.server, std::move(options), std::move(reload),
                     flags.tracing);
  }));
}

}  // namespace
}  // namespace plimsoll::services

int main(int argc, char** argv) { return plimsoll::services::Main(argc, argv); }
