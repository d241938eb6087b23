// Finds the name that was meant by one that does not exist.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_NEAREST_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_NEAREST_H_

#include <span>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Longer words are compared by their first bytes.
inline constexpr size_t kMaxComparedBytes = 64;

// Returns the first of `names` that begins with `word` or, if there is none,
// the first one with the fewest letters that are wrong, missing, too many or
// swapped with their neighbour. Requires a name.
absl::string_view Nearest(absl::string_view word,
                          std::span<const absl::string_view> names);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_NEAREST_H_
