// Builds packings from nothing: by best fit, or one device after the other.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_FILL_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_FILL_H_

#include "planner/fleet/placement_packing.h"

namespace plimsoll::planner {

// Adds every missing replica that some device can hold beside its load.
void AddWhatFits(Packing& packing);

// Returns a good packing, found in a bounded number of steps. After `stop` has
// an error, any packing may be returned. `stop` must outlive the packing.
Packing PackByHeuristics(const PlacementProblem& problem,
                         const StopCheck& stop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_FILL_H_
