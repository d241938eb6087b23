#include "worker/cache/roll_plan.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Pages that the pinned prefix must leave to the rest: one that is full and one
// that fills.
constexpr int64_t kMinRecentPages = 2;

// The longest window that is kept in a ring, or 0.
int64_t WidestRing(const planner::ModelShape& shape, int64_t n_ctx) {
  int64_t widest = 0;
  for (const planner::LayerShape& layer : shape.layers) {
    if (planner::HasRing(layer.window, n_ctx)) {
      widest = std::max(widest, layer.window);
    }
  }
  return widest;
}

absl::Status CheckPins(const planner::MemoryPlan& plan, int64_t pin_tokens) {
  if (pin_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("pin_tokens must not be negative, got ", pin_tokens));
  }
  const int64_t page = plan.kv.page_tokens;
  const int64_t most = (plan.kv.pages_per_slot - kMinRecentPages) * page;
  if (pin_tokens <= most) return absl::OkStatus();
  const std::string cure =
      most >= 0 ? absl::StrCat("pin at most ", most, " tokens or ") : "";
  return absl::InvalidArgumentError(absl::StrCat(
      "pin_tokens: ", pin_tokens, " pinned tokens leave fewer than ",
      kMinRecentPages, " of the ", plan.kv.pages_per_slot, " pages of ", page,
      " tokens in a context of ", plan.n_ctx, ", which cannot roll then: ",
      cure, "load the model with a larger n_ctx"));
}

}  // namespace

absl::StatusOr<int64_t> EvictTo(std::optional<int64_t> evict_to,
                                int64_t n_ctx) {
  const int64_t most = evict_to.value_or(n_ctx - n_ctx / 4);
  if (most < 1 || most > n_ctx) {
    return absl::InvalidArgumentError(
        absl::StrCat("evict_to must be in [1, ", n_ctx, "], got ", most));
  }
  return most;
}

absl::StatusOr<RollPlan> PlanRoll(const planner::ModelShape& shape,
                                  const planner::MemoryPlan& plan,
                                  const RollOptions& options) {
  const int64_t n_ctx = plan.n_ctx;
  if (options.policy != ContextPolicy::kRoll) {
    RollPlan whole;
    whole.capacity = n_ctx;
    return whole;
  }
  const int64_t prefix = options.pin_tokens;
  if (absl::Status status = CheckPins(plan, prefix); !status.ok()) {
    return status;
  }
  ASSIGN_OR_RETURN(int64_t evict_to, EvictTo(options.evict_to, n_ctx));
  RollPlan roll;
  roll.prefix_tokens = prefix;
  roll.n_ctx = n_ctx;
  roll.page_tokens = plan.kv.page_tokens;
  roll.recent_pages =
      plan.kv.pages_per_slot - CeilDiv(prefix, roll.page_tokens);
  roll.capacity = roll.FullAt(0);
  roll.window = WidestRing(shape, n_ctx);
  const bool keeps_rings =
      roll.capacity - roll.page_tokens - prefix >= roll.window;
  if (keeps_rings) {
    evict_to = std::max(evict_to, prefix + roll.window + roll.page_tokens);
  }
  roll.evict_to = evict_to;
  const int64_t pages = std::clamp<int64_t>(
      CeilDiv(std::max<int64_t>(roll.capacity - evict_to, 0), roll.page_tokens),
      1, roll.recent_pages - 1);
  roll.evict_tokens = pages * roll.page_tokens;
  roll.method = keeps_rings ? options.method : RollMethod::kRecompute;
  return roll;
}

int64_t RollPlan::FullAt(int64_t evicted) const {
  if (page_tokens == 0) return capacity;
  const int64_t pages = evicted / page_tokens + recent_pages;
  return std::min(n_ctx + evicted, prefix_tokens + pages * page_tokens);
}

EvictionPlan PlanEviction(const RollPlan& roll, int64_t n_live,
                          std::span<const int64_t> whole_turns) {
  const auto keeps_window = [&](int64_t n_tokens) {
    return n_live - n_tokens - roll.prefix_tokens >= roll.window;
  };
  int64_t n_tokens = 0;
  for (const int64_t turns : whole_turns) {
    if (n_tokens >= roll.page_tokens && n_live - n_tokens <= roll.evict_to) {
      break;
    }
    // The newest turn may not be in the context yet.
    if (roll.prefix_tokens + turns > n_live) break;
    n_tokens = turns;
  }
  if (n_tokens < roll.page_tokens) {
    n_tokens = roll.evict_tokens;
    // The oldest page may be there in part only.
    if (n_tokens > roll.page_tokens && !keeps_window(n_tokens)) {
      n_tokens -= roll.page_tokens;
    }
  }
  return {n_tokens,
          keeps_window(n_tokens) ? roll.method : RollMethod::kRecompute};
}

}  // namespace plimsoll::worker
