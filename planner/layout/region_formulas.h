// How the bytes of a plan's regions come about, in words.
#ifndef PLIMSOLL_PLANNER_LAYOUT_REGION_FORMULAS_H_
#define PLIMSOLL_PLANNER_LAYOUT_REGION_FORMULAS_H_

#include "planner/layout/plan_regions.h"

namespace plimsoll::planner {

// Fills in the regions' formulas.
void ExplainRegions(const PlanInputs& inputs, RegionSizes& sizes);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_REGION_FORMULAS_H_
