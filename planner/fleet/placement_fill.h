// Packings built up from nothing: by best fit, or one device after the other.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_FILL_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_FILL_H_

#include "planner/fleet/placement_packing.h"

namespace plimsoll::planner {

// Adds every missing replica that some device can hold as things lie.
void AddWhatFits(Packing& packing);

// A good packing, found in a bounded number of steps; any packing once `stop`,
// which must outlive the packing, has said so.
Packing PackByHeuristics(const PlacementProblem& problem,
                         const StopCheck& stop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_FILL_H_
