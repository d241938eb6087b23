// Why a plan has the context it has, and what would make one fit that does not.
#ifndef PLIMSOLL_PLANNER_LAYOUT_EXPLAIN_H_
#define PLIMSOLL_PLANNER_LAYOUT_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/layout/plan_regions.h"

namespace plimsoll::planner {

// "32,768".
std::string WithThousands(int64_t value);

// One sentence with numbers for the context of `plan`, whose n_ctx,
// context_limit, options and budget are set. `cap` is the largest context that
// the model and max_inference_len allow.
std::string ContextReason(const PlanInputs& inputs, const MemoryPlan& plan,
                          int64_t cap);

// The region that takes most of the device, in words: "weights", "kv_full: keys
// and values of 8 full layers"; with `only_kv` of those that grow with context.
std::string BindingTerm(const PlanInputs& inputs, const RegionSizes& sizes,
                        bool only_kv);

// Changes that help `plan`, which has `n_ctx` tokens (or whose smallest context
// those are): where it does not fit, those that make it; where memory bounds
// its context, those that give a longer one, up to `cap`. Each was checked by
// planning again; the least loss first.
std::vector<Suggestion> SuggestChanges(const PlanInputs& inputs,
                                       const MemoryPlan& plan, int64_t n_ctx,
                                       int64_t cap);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_EXPLAIN_H_
