#include "services/worker/process/worker_reload.h"

#include "absl/status/status.h"
#include "services/host/log.h"
#include "services/settings/reload.h"

namespace plimsoll::services {

void ReloadWorker(WorkerReload& reload, ModelRegistry& registry,
                  LogObserver& log) {
  const absl::StatusOr<WorkerFlags> flags = reload.read_again();
  if (!flags.ok()) {
    LogBadSettings(flags.status());
    return;
  }
  const WorkerOptions& options = flags->options;
  SettingAppliers appliers = {
      {"model", [&] { return registry.AddModels(options.models); }},
      {"log-requests",
       [&] {
         log.SetRequests(LogObserver::RequestsOf(options));
         return absl::OkStatus();
       }},
      {"log-level",
       [&] {
         SetLogLevel(flags->server.log.least);
         return absl::OkStatus();
       }},
  };
  if (registry.loads_on_demand()) {
    appliers["pin"] = [&] {
      registry.SetPinned(options.pinned);
      return absl::OkStatus();
    };
    appliers["keep-alive"] = [&] {
      registry.SetDefaultKeepAlive(options.keep_alive);
      return absl::OkStatus();
    };
  }
  ApplySettings(flags->settings, appliers, reload.in_effect);
}

}  // namespace plimsoll::services
