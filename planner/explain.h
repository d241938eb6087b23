// Why a plan has the context it has, and what would make one fit that does not.
#ifndef PLIMSOLL_PLANNER_EXPLAIN_H_
#define PLIMSOLL_PLANNER_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan_regions.h"

namespace plimsoll::planner {

// "32,768".
std::string WithThousands(int64_t value);

// One sentence with numbers for the context of `plan`, whose n_ctx,
// context_limit, options and budget are set. `cap` is the largest context that
// the model and max_inference_len allow.
// Errors: those of SizeRegions but kOutOfRange.
absl::StatusOr<std::string> ContextReason(const PlanInputs& inputs,
                                          const MemoryPlan& plan, int64_t cap);

// Changes that make a plan of `total_bytes` for `n_ctx` tokens fit the budget,
// each checked by planning again, the cheapest loss first.
// Errors: those of SizeRegions but kOutOfRange.
absl::StatusOr<std::vector<Suggestion>> SuggestChanges(const PlanInputs& inputs,
                                                       int64_t n_ctx,
                                                       int64_t total_bytes,
                                                       int64_t budget_bytes);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_EXPLAIN_H_
