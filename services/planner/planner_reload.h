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

// The parts of a planner that a reload can change.
struct ReloadTargets {
  Planner& planner;
  Ledger& ledger;
};

// Applies the settings that have changed since `in_effect`: `model` to the
// planner, `headroom` and `device-memory` to the ledger, and `log-level` to the
// log. Other settings of a running planner do not change. The log says what
// happened. Flags with an error change nothing.
void ReloadPlanner(const absl::StatusOr<PlannerFlags>& flags,
                   const ReloadTargets& targets, Settings& in_effect);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_RELOAD_H_
