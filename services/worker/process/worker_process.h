// Runs a worker from its start to its end. A signal ends it, or the loss of a
// device.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_

#include "absl/status/status.h"
#include "services/server/server.h"
#include "services/worker/models/options.h"

namespace plimsoll::services {

// The exit code after the loss of a device: a new process may find the device
// well. It is EX_TEMPFAIL of sysexits.h.
inline constexpr int kExitDeviceLost = 75;

// Serves until a signal comes, drains, and returns. The devices of `options`
// outlive it; HoldSignals was called.
//
// A device is lost if an accelerator reports an error or a step hangs. Then
// every stream ends with kUnavailable, no lease is renewed any more, the
// planner hears which device is unhealthy, and the process exits with
// kExitDeviceLost. Only its end frees what it holds there.
//
// Errors: those of Server::Start.
absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_
