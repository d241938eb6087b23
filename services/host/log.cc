#include "services/host/log.h"

#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace plimsoll::services {
namespace {

// Escapes control characters as \xNN, so that nobody can forge a line.
std::string Printable(absl::string_view text) {
  std::string result;
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&result, "\\x",
                      absl::BytesToHexString(absl::string_view(&c, 1)));
    } else {
      result.push_back(c);
    }
  }
  return result;
}

absl::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
  }
  return "ERROR";
}

// A field's value: as it is if it is one word, else in quotes.
std::string Quoted(absl::string_view value) {
  const bool is_word =
      !value.empty() && value.find_first_of(" \"=\\") == value.npos;
  if (is_word) return Printable(value);
  std::string result = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') result.push_back('\\');
    result.push_back(c);
  }
  result.push_back('"');
  return Printable(result);
}

}  // namespace

std::string LogLine(LogLevel level, absl::string_view message,
                    std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat(NameOf(level), " ", Printable(message));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.name, "=", Quoted(field.value));
  }
  return line;
}

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields) {
  const std::string line =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                    absl::UTCTimeZone()),
                   " ", LogLine(level, message, fields), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace plimsoll::services
