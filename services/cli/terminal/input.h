// Reads text from standard input or a file, within a limit.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_INPUT_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_INPUT_H_

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::cli {

// Limit of one prompt of a batch, as JSON: escapes may take six times the text.
inline constexpr int64_t kMaxLineBytes = int64_t{16} << 20;

// Reads all bytes of `stream`.
// Errors: kInvalidArgument beyond `max_bytes`.
absl::StatusOr<std::string> ReadAll(std::istream& stream, int64_t max_bytes);

// Reads all bytes of the file `path`, or of `in` if it is "-".
// Errors: kNotFound if it cannot be opened; those of ReadAll.
absl::StatusOr<std::string> ReadText(const std::string& path, std::istream& in,
                                     int64_t max_bytes);

// Reads the next line without its line feed; returns nothing at the end.
// Errors: kInvalidArgument if it has more than `max_bytes`.
absl::StatusOr<std::optional<std::string>> ReadLine(std::istream& stream,
                                                    int64_t max_bytes);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_INPUT_H_
