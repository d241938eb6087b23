// Writes lines for the operator on standard error. No prompt, completion or
// token is ever written there.
#ifndef PLIMSOLL_SERVICES_HOST_LOG_H_
#define PLIMSOLL_SERVICES_HOST_LOG_H_

#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

enum class LogLevel {
  kInfo,     // normal work of the process
  kWarning,  // something is missing, and serving goes on
  kError,    // something is refused until an operator or time mends it
};

// A name and a value that tools can read out of a line: "model", "device",
// "bytes", "request_id", "error".
struct LogField {
  absl::string_view name;
  std::string value;
};

// Writes one line: the time, the level, the message, and the fields as
// name=value. A value with spaces or quotes is quoted, and control characters
// are escaped, so nobody can forge a line. Thread-safe.
void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields = {});

// The line that Log writes, without its time.
std::string LogLine(LogLevel level, absl::string_view message,
                    std::initializer_list<LogField> fields);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LOG_H_
