#include "planner/layout/model_set.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/layout/auto_context.h"

namespace plimsoll::planner {
namespace {

// The members, and the device on which they lie.
struct SharedDevice {
  const std::vector<SetMember>& members;
  const DeviceProfile& profile;
  StopCheck stop;
};

// Bytes of all members, with `n_ctx` tokens for those that ask for none.
// `bytes_of` plans one member.
using BytesOf = absl::FunctionRef<absl::StatusOr<int64_t>(
    const ModelShape&, const PlanOptions&, const DeviceProfile&)>;
absl::StatusOr<int64_t> TotalAt(const SharedDevice& device, int64_t n_ctx,
                                BytesOf bytes_of) {
  DeviceProfile profile = device.profile;
  Checked total = 0;
  for (size_t i = 0; i < device.members.size(); ++i) {
    RETURN_IF_ERROR(device.stop());
    const SetMember& member = device.members[i];
    PlanOptions options = member.options;
    if (!options.n_ctx) options.n_ctx = n_ctx;
    const absl::StatusOr<int64_t> bytes =
        bytes_of(member.shape, options, profile);
    if (!bytes.ok()) {
      return absl::Status(
          bytes.status().code(),
          absl::StrCat("model ", i + 1, ": ", bytes.status().message()));
    }
    total += *bytes;
    // The first member's plan has counted the process.
    profile.runtime_bytes = 0;
    profile.message_bytes = 0;
  }
  if (const auto bytes = total.Get()) return *bytes;
  return absl::OutOfRangeError("the models do not fit in int64 bytes");
}

}  // namespace

absl::StatusOr<SetPlan> PlanSet(const std::vector<SetMember>& members,
                                const DeviceProfile& profile,
                                int64_t budget_bytes, StopCheck stop) {
  const auto n_members = static_cast<int64_t>(members.size());
  if (n_members < 1 || n_members > kMaxModelsInSet) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a set of ", n_members, " models, not 1 to ", kMaxModelsInSet));
  }
  int64_t cap = 1;
  int64_t n_layers = 0;
  for (const SetMember& member : members) {
    n_layers += member.shape.n_layers;
    if (!member.options.n_ctx) cap = std::max(cap, member.shape.n_ctx_train);
  }
  if (n_layers > kMaxLayersInSet) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a set of models with ", n_layers, " layers together, at most ",
        kMaxLayersInSet, " are accepted"));
  }
  const SharedDevice device = {members, profile, stop};
  const ContextGrid grid(cap, ContextStep::kPage);
  const auto bytes_of = [&](const auto&... what) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const PlanNumbers plan,
                     LayoutNumbers(what..., budget_bytes));
    return plan.total_bytes;
  };
  // Contexts below `low` fit, those from `high` on do not; the smallest is
  // planned even if it does not fit.
  int64_t low = 0;
  int64_t high = grid.size();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const int64_t bytes,
                     TotalAt(device, grid.At(middle), bytes_of));
    const bool fits = bytes <= budget_bytes;
    (fits ? low : high) = fits ? middle + 1 : middle;
  }
  SetPlan set = {};
  set.budget_bytes = budget_bytes;
  const auto keep_plan = [&](const auto&... what) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(set.plans.emplace_back(), Layout(what..., budget_bytes));
    return set.plans.back().total_bytes;
  };
  ASSIGN_OR_RETURN(
      set.total_bytes,
      TotalAt(device, grid.At(std::max<int64_t>(low - 1, 0)), keep_plan));
  set.fits = set.total_bytes <= budget_bytes;
  return set;
}

}  // namespace plimsoll::planner
