// A worker from its start to its end: by a signal, or by the loss of a
// device.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_

#include "absl/status/status.h"
#include "services/server/server.h"
#include "services/worker/models/options.h"

namespace plimsoll::services {

// Of a process whose device is lost: another one may find it well. Source:
// EX_TEMPFAIL of sysexits.h.
inline constexpr int kExitDeviceLost = 75;

// Serves until a signal comes, drains, and returns. The devices of `options`
// outlive it; HoldSignals was called.
//
// Where one of them is lost, an accelerator's error or a step that hangs, every
// stream ends with kUnavailable, leases are renewed no more, the planner hears
// which device is unhealthy, and the process exits with kExitDeviceLost: its
// end alone frees what it holds there.
//
// Errors: those of Server::Start.
absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_PROCESS_H_
