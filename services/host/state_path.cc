#include "services/host/state_path.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {

std::string StatePath(absl::string_view name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  // The specification says that a relative path must be ignored.
  if (state != nullptr && state[0] == '/') {
    return absl::StrCat(state, "/plimsoll/", name);
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return absl::StrCat(home, "/.local/state/plimsoll/", name);
}

}  // namespace plimsoll::services
