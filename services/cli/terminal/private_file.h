// Files that only their owner may read.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_PRIVATE_FILE_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Writes a new file of mode 0600 and renames it to `path`, so that a complete
// file always exists there.
// Errors: kUnavailable with the path and the system's reason; the old file at
// `path` then stays.
absl::Status WritePrivateFile(const std::string& path, absl::string_view text);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_PRIVATE_FILE_H_
