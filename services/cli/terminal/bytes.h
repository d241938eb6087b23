// Reads and writes byte sizes: it reads "12GiB" and writes "12.0 GiB".
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_BYTES_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Parses a size: a whole number of bytes ("12884901888", "512B") or a decimal
// number with a binary unit ("12GiB", "1.5 GiB"; KiB, MiB, GiB, TiB in any
// case). A fraction of a byte is dropped.
//
// Errors: kInvalidArgument for anything else, saying what to write instead
// (decimal units such as "12GB" are refused, because their meaning is
// ambiguous); kOutOfRange if it does not fit in int64.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Converts an unsigned number of bytes from a message.
inline int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

// Writes "0 B", "999 B", "1.5 KiB" or "12.0 GiB": one decimal, and the largest
// unit that keeps the number at or above 1.
std::string FormatBytes(int64_t bytes);

// Writes a count like "1,234,567".
std::string FormatCount(int64_t count);

// Writes "1 device" or "1,234 devices".
std::string FormatCounted(int64_t count, absl::string_view what);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_BYTES_H_
