// Lines of the log, as text or as JSON.
#ifndef PLIMSOLL_SERVICES_HOST_LOG_LINE_H_
#define PLIMSOLL_SERVICES_HOST_LOG_LINE_H_

#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace plimsoll::services {

enum class LogLevel {
  kInfo,     // normal work of the process
  kWarning,  // something is missing, and serving continues
  kError,    // something is refused until an operator or time repairs it
};

enum class LogFormat { kText, kJson };

// A name and a value that tools can read out of a line: "model", "device",
// "bytes", "request_id", "error".
struct LogField {
  // A longer value is cut, and ends in "...".
  static constexpr size_t kMaxValueBytes = 4'096;

  // NOLINTNEXTLINE(google-explicit-constructor): fields are written in braces.
  LogField(absl::string_view name_in, std::string text)
      : name(name_in), value(std::move(text)) {}
  template <std::integral Number>
  LogField(absl::string_view name_in, Number number)
      : name(name_in), value(std::to_string(number)), is_number(true) {}

  absl::string_view name;
  std::string value;
  bool is_number = false;
};

// What a line of the log says.
struct LogEntry {
  absl::Time time;
  LogLevel level;
  absl::string_view message;
  const std::vector<LogField>& fields;
};

// Returns the line for `entry`, without a newline at its end.
//
// A line of text is the time in UTC, the level, the message, and the fields as
// name=value. A value with spaces or quotes is quoted. A line of JSON is one
// object: "time", "level", "message", and the fields, whose numbers are
// numbers. Control characters are escaped, so nobody can forge a line; in JSON,
// bytes that are not UTF-8 become U+FFFD.
std::string LogLine(LogFormat format, const LogEntry& entry);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LOG_LINE_H_
