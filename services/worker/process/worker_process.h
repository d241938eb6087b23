// Runs a worker from its start to its end. A signal ends it, or the loss of a
// device.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_

#include "absl/status/status.h"
#include "services/server/server.h"
#include "services/tracing/tracer.h"
#include "services/worker/models/options.h"
#include "services/worker/process/worker_reload.h"

namespace plimsoll::services {

// Serves until a signal comes, drains, and returns. The devices of `options`
// outlive it; HoldSignals was called. If `reload` can read the settings again,
// it does so at each SIGHUP, and HoldHangup was called.
//
// The loss of a device ends the process (WorkerCore::WatchDevices).
//
// Errors: those of Server::Start and Tracer::Start.
absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options, WorkerReload reload = {},
                       const TracingOptions& tracing = {});

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_
