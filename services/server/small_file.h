// Reads configuration files, which are small.
#ifndef PLIMSOLL_SERVICES_SERVER_SMALL_FILE_H_
#define PLIMSOLL_SERVICES_SERVER_SMALL_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace plimsoll::services {

// Returns the bytes of a file.
// Errors: kInvalidArgument with the path and the reason if it cannot be read or
// has more than `max_bytes`.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          size_t max_bytes);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_SMALL_FILE_H_
