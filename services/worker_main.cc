// plimsoll-worker: loads models exactly to their plan and serves them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/clock.h"
#include "services/common/flags.h"
#include "services/common/random_id.h"
#include "services/common/runtime_store.h"
#include "services/common/server.h"
#include "services/worker/options.h"
#include "services/worker/worker_flags.h"
#include "services/worker/worker_process.h"
#include "worker/compute_device.h"

namespace plimsoll::services {
namespace {

// This host's name, so that devices of several hosts differ.
std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

void FillDefaults(const worker::ComputeDevice& device, WorkerOptions& options) {
  options.compute = &device;
  if (options.profile_folder.empty()) {
    options.profile_folder = DefaultProfileFolder();
  }
  options.profile = [&device] { return device.Profile(); };
  options.clock = BootTime;
  // A GPU's own name is the same in every container, the host's is not.
  if (options.device_id.empty()) options.device_id = device.unique_id();
  if (options.device_id.empty()) {
    options.device_id =
        options.planner.empty() ? "cpu" : absl::StrCat(HostName(), "/cpu");
  }
  // The first process of a container has the same pid in each of its lives, of
  // which one may have found the device unhealthy.
  const std::string life = getpid() == 1 ? "-" + RandomId().substr(0, 8) : "";
  options.holder = absl::StrCat(HostName(), "/", getpid(), life);
}

int Main(int argc, char** argv) {
  HoldSignals();
  ServerOptions server;
  WorkerOptions options;
  if (const auto code = ParseWorkerFlags(argc, argv, server, options)) {
    return *code;
  }
  options.drain_timeout = server.drain_timeout;
  const auto device = worker::OpenComputeDevice(options.device);
  if (!device.ok()) {
    return ExitCode(absl::Status(device.status().code(),
                                 absl::StrCat("--device ", options.device, ": ",
                                              device.status().message())));
  }
  FillDefaults(**device, options);
  return ExitCode(RunWorker(server, std::move(options)));
}

}  // namespace
}  // namespace plimsoll::services

int main(int argc, char** argv) { return plimsoll::services::Main(argc, argv); }
