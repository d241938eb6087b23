// When a rolling context is full, and which tokens leave it then: pure
// arithmetic over the memory plan.
#ifndef PLIMSOLL_WORKER_CACHE_ROLL_PLAN_H_
#define PLIMSOLL_WORKER_CACHE_ROLL_PLAN_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::worker {

// What happens when a sequence reaches n_ctx.
enum class ContextPolicy {
  kStop,   // it ends with FinishReason::kLength
  kError,  // it ends with kOutOfRange
  kRoll,   // its oldest tokens leave, except for the pinned ones
};

// How a sequence goes on after tokens have left.
enum class RollMethod {
  kShift,      // keys stay where they are; pinned keys seem closer
  kRecompute,  // kept tokens are computed again: exact, but slower
};

// A request's choice of what happens when its context is full.
struct RollOptions {
  // These tokens serve as attention sinks: a rolled context without them is
  // worth little. Source: StreamingLLM (Xiao et al., 2024), table 2.
  static constexpr int64_t kDefaultPinTokens = 4;

  ContextPolicy policy = ContextPolicy::kStop;
  // Used with kRoll. kShift becomes kRecompute where the context is too short
  // to keep the rings of sliding-window layers filled; each eviction reports
  // the method it used.
  RollMethod method = RollMethod::kShift;
  // How many leading tokens never leave, the first one (BOS) included; 0 pins
  // nothing. Pinned tokens take whole pages.
  int64_t pin_tokens = kDefaultPinTokens;
  // An eviction leaves at most this many tokens, in whole pages; absent = 75 %
  // of n_ctx. At least one page leaves and at least one stays. The value is
  // raised where rings would not stay filled.
  std::optional<int64_t> evict_to = std::nullopt;
};

// RollOptions::evict_to as a number.
// Errors: kInvalidArgument unless it is in [1, n_ctx].
absl::StatusOr<int64_t> EvictTo(std::optional<int64_t> evict_to, int64_t n_ctx);

// How one context rolls, fixed when it begins. The default never rolls.
struct RollPlan {
  int64_t prefix_tokens = 0;  // the first tokens, which never leave
  // How many tokens a full context attends to, if only whole pages have left:
  // n_ctx less the cells that the prefix's last page leaves empty.
  int64_t capacity = std::numeric_limits<int64_t>::max();
  int64_t evict_tokens = 0;  // leave at once without turns, in whole pages
  RollMethod method = RollMethod::kShift;
  int64_t evict_to = 0;  // at most this many stay when whole turns leave
  int64_t window = 0;    // recent tokens that rings need; 0 without rings
  int64_t n_ctx = 0;
  int64_t page_tokens = 0;
  int64_t recent_pages = 0;  // the slot's pages without those of the prefix

  // The number of positions at which the context is full after the tokens of
  // `evicted` positions have left. A page is free only when all its tokens have
  // left.
  int64_t FullAt(int64_t evicted) const;
};

// Plans how a request's context rolls. Fullness and evictions do not depend on
// how the sequence is cut into chunks. `evict_to` is raised to prefix + window
// + one page, so that the widest ring keeps `window` recent tokens; where n_ctx
// does not allow that, the method is kRecompute.
// Errors: kInvalidArgument naming pin_tokens or evict_to, with the numbers, if
// they make no sense or the prefix leaves fewer than two pages.
absl::StatusOr<RollPlan> PlanRoll(const planner::ModelShape& shape,
                                  const planner::MemoryPlan& plan,
                                  const RollOptions& options);

// How many tokens leave at once, and how the context goes on.
struct EvictionPlan {
  int64_t n_tokens;
  RollMethod method;
};

// Plans what leaves a full context of `n_live` tokens. Whole turns leave until
// evict_to is reached and a page is free, but never the newest turn. If that is
// less than a page, pages leave instead. A context that would keep fewer recent
// tokens than its rings need is recomputed. `whole_turns` comes from
// TokenHistory::WholeTurns.
EvictionPlan PlanEviction(const RollPlan& roll, int64_t n_live,
                          std::span<const int64_t> whole_turns);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_ROLL_PLAN_H_
