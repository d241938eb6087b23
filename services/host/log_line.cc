#include "services/host/log_line.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"

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

absl::string_view UpperNameOf(LogLevel level) {
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

std::string Bounded(absl::string_view value) {
  if (value.size() <= LogField::kMaxValueBytes) return std::string(value);
  return absl::StrCat(value.substr(0, LogField::kMaxValueBytes), "...");
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string JsonLine(const LogEntry& entry) {
  nlohmann::ordered_json line;
  line["time"] = TimeText(entry.time);
  line["level"] = absl::AsciiStrToLower(UpperNameOf(entry.level));
  line["message"] = std::string(entry.message);
  for (const LogField& field : entry.fields) {
    nlohmann::ordered_json& value = line[std::string(field.name)];
    value = Bounded(field.value);
    int64_t number;
    if (field.is_number && absl::SimpleAtoi(field.value, &number)) {
      value = number;
    }
  }
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::string LogLine(LogFormat format, const LogEntry& entry) {
  if (format == LogFormat::kJson) return JsonLine(entry);
  std::string line =
      absl::StrCat(TimeText(entry.time), " ", UpperNameOf(entry.level), " ",
                   Printable(entry.message));
  for (const LogField& field : entry.fields) {
    absl::StrAppend(&line, " ", field.name, "=", Quoted(Bounded(field.value)));
  }
  return line;
}

}  // namespace plimsoll::services
