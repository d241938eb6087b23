// The settings that a planner reads again while it runs.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_RELOAD_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_RELOAD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/planner/ledger.h"
#include "services/planner/planner.h"
#include "services/planner/planner_flags.h"
#include "services/server/flags.h"
#include "services/settings/settings.h"

namespace plimsoll::services {

// Reads the header of every configured model.
// Errors: those of OpenPlanSource, with the model's name.
absl::StatusOr<Planner::Models> ReadPlannerModels(
    const std::vector<ModelFlag>& flags);

// What settings can change while it runs.
struct ReloadTargets {
  Planner& planner;
  Ledger& ledger;
};

// Gives the planner what has changed of `model` since `in_effect`, the ledger
// what has changed of `headroom` and of `device-memory`, and the log what has
// changed of `log-level`;
// other settings of a planner stay while it runs. The log says what happened;
// flags that are in error change nothing.
void ReloadPlanner(const absl::StatusOr<PlannerFlags>& flags,
                   const ReloadTargets& targets, Settings& in_effect);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_RELOAD_H_
