// Bounds that no placement can beat: upper bounds on the replicas placed and
// lower bounds on the devices used, without solving the problem.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_BOUNDS_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_BOUNDS_H_

#include <cstdint>
#include <vector>

#include "base/stop_check.h"
#include "planner/fleet/placement.h"

namespace plimsoll::planner {

// No assignment places more than this many of counts[model] replicas of each
// model. Requires a valid problem.
//
// Every device becomes one unit of each of several measures (its bytes; how
// many replicas of more than a half, a third, ... of it it could hold), and a
// replica takes a share of it. Prices of the devices then bound a fractional
// assignment that respects one measure (Lagrangian duality). Any prices give a
// valid bound; a few rounds make them good ones. The rounds end when `stop` has
// an error.
// Source: dual feasible functions, Fekete and Schepers, "New classes of fast
// lower bounds for bin packing problems", 2001.
int64_t MaxPlacedBound(const PlacementProblem& problem,
                       const std::vector<int64_t>& counts,
                       StopCheck stop = NeverStop);

// No assignment of exactly counts[model] replicas of each model, which must be
// possible, uses fewer devices.
int64_t MinDevicesBound(const PlacementProblem& problem,
                        const std::vector<int64_t>& counts,
                        StopCheck stop = NeverStop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_BOUNDS_H_
