// The best packing of a small problem, by branch and bound.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_SEARCH_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_SEARCH_H_

#include <cstdint>

#include "planner/fleet/placement_packing.h"

namespace plimsoll::planner {

// Problems with more are not searched.
inline constexpr int64_t kMaxSearchReplicas = 64;
inline constexpr int64_t kMaxSearchDevices = 64;
// Devices tried for replicas, all together; then the search gives up.
inline constexpr int64_t kMaxSearchTrials = 200'000;

// Replaces `best` by a packing of a higher score if there is one, and returns
// whether the search went through to its end: then `best` is optimal.
// It ends early once `stop`, which must outlive `best`, says so.
bool SearchPlacement(const PlacementProblem& problem, Packing& best,
                     const StopCheck& stop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_SEARCH_H_
