// The largest context whose plan fits a budget.
#ifndef PLIMSOLL_PLANNER_AUTO_CONTEXT_H_
#define PLIMSOLL_PLANNER_AUTO_CONTEXT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "planner/plan_regions.h"

namespace plimsoll::planner {

// The contexts that a solver chooses among, smallest first: 16, 32, 48 and 64
// tokens (one short page), then whole pages of 64, the last one cut to `cap`.
// Requires 0 <= index < NumContexts(cap) and cap > 0.
int64_t ContextAt(int64_t index, int64_t cap);
int64_t NumContexts(int64_t cap);
// The context after `n_ctx`, which is one of them and not the last.
int64_t NextContext(int64_t n_ctx, int64_t cap);

// Total bytes of the plan for `n_ctx`; nothing if they do not fit in int64.
// Errors: those of SizeRegions but kOutOfRange.
absl::StatusOr<std::optional<int64_t>> TotalBytes(const PlanInputs& inputs,
                                                  int64_t n_ctx);

// Returns the largest of the contexts up to `cap` whose plan takes at most
// `budget_bytes`, or 0 if none does. Exact, because a plan's bytes never shrink
// as its context grows. Errors: as TotalBytes.
absl::StatusOr<int64_t> LargestContext(const PlanInputs& inputs, int64_t cap,
                                       int64_t budget_bytes);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_AUTO_CONTEXT_H_
