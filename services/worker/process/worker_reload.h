// The settings that a worker reads again while it runs.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_RELOAD_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_RELOAD_H_

#include <functional>

#include "absl/status/statusor.h"
#include "services/settings/settings.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/process/log_observer.h"
#include "services/worker/process/worker_flags.h"

namespace plimsoll::services {

struct WorkerReload {
  Settings in_effect = {};
  // Reads all flags again; null if there is no file of settings.
  std::function<absl::StatusOr<WorkerFlags>()> read_again = nullptr;
};

// Reads the settings again and applies what has changed: models that were
// added, `log-requests`, `log-level` and, if models are loaded on demand, `pin`
// and `keep-alive`. The log says what happened. Flags with an error change
// nothing.
void ReloadWorker(WorkerReload& reload, ModelRegistry& registry,
                  LogObserver& log);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_RELOAD_H_
