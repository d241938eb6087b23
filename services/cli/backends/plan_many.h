// Plans several models, or one model on several devices: `plan --with` and
// `plan --split`.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_PLAN_MANY_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_PLAN_MANY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plimsoll/v1/plan.pb.h"
#include "services/cli/flags/flags.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Plans the models within one budget on this machine's CPU, or on a device like
// it.
// Errors: those of OpenPlannable and of planner::PlanSet.
absl::StatusOr<v1::PlanSetResponse> PlanSetHere(
    const std::vector<std::string>& models, const LoadFlags& flags);

// Plans one model over devices with `budgets`, each with its own memory.
// Errors: those of OpenPlannable and of planner::SplitLayers.
absl::StatusOr<v1::PlanSplitResponse> PlanSplitHere(
    const std::string& model, const std::vector<int64_t>& budgets,
    const LoadFlags& flags);

std::string RenderSet(const v1::PlanSetResponse& set,
                      const std::vector<std::string>& models,
                      const Style& style);
// `names` has the names of the devices; if it is empty, they have numbers.
std::string RenderSplit(const v1::PlanSplitResponse& split,
                        const std::vector<std::string>& names,
                        const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_PLAN_MANY_H_
