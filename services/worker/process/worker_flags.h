// The flags of plimsoll-worker.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_FLAGS_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_FLAGS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "services/server/server.h"
#include "services/settings/settings.h"
#include "services/tracing/tracer.h"
#include "services/worker/models/options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace plimsoll::services {

// All settings of a worker.
struct WorkerFlags {
  ServerOptions server = {};
  WorkerOptions options = {};
  DeviceFlags devices = {};
  TracingOptions tracing = {};
  Settings settings = {.section = "worker"};
};

// Adds --hang-timeout, which `plimsoll serve` has too. The default is what the
// time is.
void AddHangFlag(CLI::App& app, absl::Duration& hang_timeout);

// Adds --preemption, which `plimsoll serve` has too.
void AddPreemptionFlag(CLI::App& app, worker::Preemption& preemption);

// Parses the command line, and reads the settings of the environment and of a
// file. Returns the exit code if the process is to end now.
std::optional<int> ParseWorkerFlags(int argc, char** argv, WorkerFlags& flags);

// Does the same in a process that runs already, for what has changed since.
// Errors: kInvalidArgument with what is wrong.
absl::StatusOr<WorkerFlags> ReadWorkerFlagsAgain(int argc, char** argv);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_FLAGS_H_
