// Moves that improve a packing: making room for a replica, emptying a device.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_MOVES_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_MOVES_H_

#include "planner/fleet/placement_packing.h"

namespace plimsoll::planner {

// Moves replicas so that more find a place and fewer devices are used. It ends
// when it finds no move that helps within a number of steps. The score never
// gets worse.
void ImprovePacking(Packing& packing);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_MOVES_H_
