#include "planner/lease.h"

namespace plimsoll::planner {

const char* LeaseStateName(LeaseState state) {
  switch (state) {
    case LeaseState::kReserved:
      return "RESERVED";
    case LeaseState::kConfirmed:
      return "CONFIRMED";
    case LeaseState::kSuspect:
      return "SUSPECT";
    case LeaseState::kReleased:
      break;
  }
  return "RELEASED";
}

}  // namespace plimsoll::planner
