// When a rolling context is full, and what leaves it then: pure arithmetic over
// the memory plan.
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
  kRoll,   // its oldest tokens leave, but for the pinned ones
};

// How a sequence goes on after tokens have left.
enum class RollMethod {
  kShift,      // keys stay where they are, the pinned ones look closer
  kRecompute,  // what is kept is computed again: exact, and slower
};

// What a request asks for when its context is full.
struct RollOptions {
  // Attention sinks: without them the rest of a rolled context is worth little.
  // Source: StreamingLLM (Xiao et al., 2024), table 2.
  static constexpr int64_t kDefaultPinTokens = 4;

  ContextPolicy policy = ContextPolicy::kStop;
  // For kRoll. kShift becomes kRecompute where the context is too short to
  // keep the rings of sliding-window layers filled; evictions say which it was.
  RollMethod method = RollMethod::kShift;
  // Leading tokens that never leave, the first one (BOS) included; 0 pins
  // nothing. They take whole pages.
  int64_t pin_tokens = kDefaultPinTokens;
  // Tokens that an eviction leaves at most, in whole pages; absent = 75 % of
  // n_ctx. At least a page leaves and at least one stays; it is raised so that
  // rings stay filled.
  std::optional<int64_t> evict_to = std::nullopt;
};

// Of one context, fixed when it begins. The default is that of a context that
// never rolls.
struct RollPlan {
  int64_t prefix_tokens = 0;  // the first ones, which never leave
  // Tokens that are attended when the context is full, where only whole pages
  // have left: n_ctx, less what the last page of the prefix leaves empty.
  int64_t capacity = std::numeric_limits<int64_t>::max();
  int64_t evict_tokens = 0;  // that leave a full context at once, whole pages
  RollMethod method = RollMethod::kShift;
  int64_t evict_to = 0;  // tokens that stay at most where whole turns leave
  int64_t window = 0;    // recent tokens that rings need; 0 without rings
  int64_t n_ctx = 0;
  int64_t page_tokens = 0;
  int64_t recent_pages = 0;  // of the slot, the prefix's less

  // Positions that fit where the tokens of `evicted` of them have left: a page
  // is free only when all its tokens have.
  int64_t FullAt(int64_t evicted) const;
};

// The plan of a request. Fullness and evictions do not depend on how the
// sequence is cut into chunks. `evict_to` is raised to prefix + window + one
// page, so that the widest ring keeps `window` recent tokens; where n_ctx does
// not allow that, the method is kRecompute.
// Errors: kInvalidArgument naming pin_tokens or evict_to, with the numbers, if
// they make no sense or the prefix leaves fewer than two pages.
absl::StatusOr<RollPlan> PlanRoll(const planner::ModelShape& shape,
                                  const planner::MemoryPlan& plan,
                                  const RollOptions& options);

// Tokens that leave at once, and how the context goes on.
struct Leaving {
  int64_t n_tokens;
  RollMethod method;
};

// What leaves a full context of `n_live` tokens: as many whole turns as take it
// to evict_to and free a page, or all but the newest; pages where that is less
// than one.
// `whole_turns` as of TokenHistory. A context that would keep fewer recent
// tokens than its rings need is recomputed.
Leaving WhatLeaves(const RollPlan& roll, int64_t n_live,
                   std::span<const int64_t> whole_turns);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_ROLL_PLAN_H_
