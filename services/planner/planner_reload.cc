#include "services/planner/planner_reload.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/settings/reload.h"
#include "services/sources/plan_source.h"

namespace plimsoll::services {

absl::StatusOr<Planner::Models> ReadPlannerModels(
    const std::vector<ModelFlag>& flags) {
  Planner::Models models;
  for (const ModelFlag& flag : flags) {
    auto source = OpenPlanSource(flag.path);
    if (!source.ok()) {
      return absl::Status(
          source.status().code(),
          absl::StrCat("model ", flag.name, ": ", source.status().message()));
    }
    models[flag.name] =
        std::make_shared<const planner::ModelShape>(std::move(source->shape));
  }
  return models;
}

void ReloadPlanner(const absl::StatusOr<PlannerFlags>& flags,
                   const ReloadTargets& targets, Settings& in_effect) {
  if (!flags.ok()) {
    LogBadSettings(flags.status());
    return;
  }
  const auto set_models = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Planner::Models models,
                     ReadPlannerModels(flags->options.models));
    targets.planner.SetModels(std::move(models));
    return absl::OkStatus();
  };
  const auto set_policies = [&] {
    targets.ledger.SetPolicies(flags->options.headrooms, flags->options.sizes);
    return absl::OkStatus();
  };
  const auto set_level = [&] {
    SetLogLevel(flags->server.log.least);
    return absl::OkStatus();
  };
  ApplySettings(flags->settings,
                {{"model", set_models},
                 {"device-memory", set_policies},
                 {"headroom", set_policies},
                 {"log-level", set_level}},
                in_effect);
}

}  // namespace plimsoll::services
