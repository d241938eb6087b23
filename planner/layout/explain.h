// Explains why a plan has its context, and which changes make a plan fit.
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

// Names the region that uses most of the device's memory: "weights", "kv_full:
// keys and values of 8 full layers". If `only_kv` is true, only regions that
// grow with the context are considered.
std::string BindingTerm(const PlanInputs& inputs, const RegionSizes& sizes,
                        bool only_kv);

// Returns changes that improve `plan`. `n_ctx` is its context, or its smallest
// possible context, in tokens. If the plan does not fit, the changes make it
// fit. If memory limits its context, they give a longer one, up to `cap`. Each
// change was checked by planning again. The change with the least loss comes
// first.
std::vector<Suggestion> SuggestChanges(const PlanInputs& inputs,
                                       const MemoryPlan& plan, int64_t n_ctx,
                                       int64_t cap);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_EXPLAIN_H_
