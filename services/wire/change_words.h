// A planner's change of load options in the command line's words.
#ifndef PLIMSOLL_SERVICES_WIRE_CHANGE_WORDS_H_
#define PLIMSOLL_SERVICES_WIRE_CHANGE_WORDS_H_

#include <string>

#include "planner/layout/memory_plan.h"

namespace plimsoll::services {

// The flags that make the change, such as "--n-ubatch 64 --slots 1". The order
// is always the same. Empty if nothing is changed.
std::string FlagsOf(const planner::Change& change);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_CHANGE_WORDS_H_
