// The folder for files that outlive a user's programs.
#ifndef PLIMSOLL_SERVICES_HOST_STATE_PATH_H_
#define PLIMSOLL_SERVICES_HOST_STATE_PATH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Returns the path of `name` in ${XDG_STATE_HOME}/plimsoll, or in
// ~/.local/state/plimsoll if that variable has no absolute path. Empty if HOME
// has no absolute path either. Source: the XDG Base Directory Specification.
std::string StatePath(absl::string_view name);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_STATE_PATH_H_
