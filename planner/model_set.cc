#include "planner/model_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/auto_context.h"

namespace plimsoll::planner {
namespace {

// The plans of all members with `n_ctx` tokens where they ask for none.
absl::StatusOr<SetPlan> PlanAt(const std::vector<SetMember>& members,
                               const DeviceProfile& profile,
                               int64_t budget_bytes, int64_t n_ctx) {
  SetPlan set = {};
  set.budget_bytes = budget_bytes;
  DeviceProfile shared = profile;
  Checked total = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    LoadOptions options = members[i].options;
    if (!options.n_ctx) options.n_ctx = n_ctx;
    auto plan = Layout(members[i].shape, options, shared, budget_bytes);
    if (!plan.ok()) {
      return absl::Status(
          plan.status().code(),
          absl::StrCat("model ", i + 1, ": ", plan.status().message()));
    }
    total += plan->total_bytes;
    set.plans.push_back(*std::move(plan));
    // The process is there already.
    shared.runtime_bytes = 0;
  }
  const auto bytes = total.Get();
  if (!bytes) {
    return absl::OutOfRangeError("the models do not fit in int64 bytes");
  }
  set.total_bytes = *bytes;
  set.fits = *bytes <= budget_bytes;
  return set;
}

}  // namespace

absl::StatusOr<SetPlan> PlanSet(const std::vector<SetMember>& members,
                                const DeviceProfile& profile,
                                int64_t budget_bytes) {
  const auto n_members = static_cast<int64_t>(members.size());
  if (n_members < 1 || n_members > kMaxModelsInSet) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a set of ", n_members, " models, not 1 to ", kMaxModelsInSet));
  }
  int64_t cap = 1;
  for (const SetMember& member : members) {
    if (!member.options.n_ctx) cap = std::max(cap, member.shape.n_ctx_train);
  }
  const ContextGrid grid(cap, false);
  // Contexts below `low` fit, those from `high` on do not; the smallest is
  // planned even if it does not fit.
  int64_t low = 0;
  int64_t high = grid.size();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const SetPlan set,
                     PlanAt(members, profile, budget_bytes, grid.At(middle)));
    (set.fits ? low : high) = set.fits ? middle + 1 : middle;
  }
  return PlanAt(members, profile, budget_bytes,
                grid.At(std::max<int64_t>(low - 1, 0)));
}

}  // namespace plimsoll::planner
