// The registry of architectures that this build knows.
#ifndef PLIMSOLL_PLANNER_MODEL_ARCHITECTURES_H_
#define PLIMSOLL_PLANNER_MODEL_ARCHITECTURES_H_

#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"

namespace plimsoll::planner {

// All architectures, in alphabetical order.
std::span<const Architecture* const> Architectures();

// The architecture called `name`, or nullptr.
const Architecture* FindArchitecture(absl::string_view name);

// The architectures that this build can describe, for messages:
// "gemma2, gemma3, ...".
std::string SupportedArchitectures();

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_ARCHITECTURES_H_
