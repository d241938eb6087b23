#include "services/settings/settings.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace plimsoll::services {
namespace {

// Whether TOML has `text` as a number which, read and written, is `text` again.
bool IsNumber(absl::string_view text) {
  int64_t whole = 0;
  if (absl::SimpleAtoi(text, &whole)) return absl::StrCat(whole) == text;
  // Digits alone are an integer, here one that is too large.
  double number = 0;
  return text.find_first_of(".en") != text.npos &&
         absl::SimpleAtod(text, &number) && NumberText(number) == text;
}

std::string QuotedValue(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&quoted, "\\u%04X", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string ValueText(const Setting& setting) {
  const auto append = [](std::string* out, const std::string& value) {
    out->append(IsNumber(value) ? value : QuotedValue(value));
  };
  switch (setting.kind) {
    case SettingKind::kSwitch:
      return setting.values.front();
    case SettingKind::kList:
      return absl::StrCat("[", absl::StrJoin(setting.values, ", ", append),
                          "]");
    case SettingKind::kSingle:
      break;
  }
  std::string text;
  append(&text, setting.values.front());
  return text;
}

}  // namespace

std::string VariableOf(absl::string_view section, absl::string_view key) {
  return absl::AsciiStrToUpper(absl::StrReplaceAll(
      absl::StrCat("plimsoll_", section, "_", key), {{"-", "_"}}));
}

std::string PrintSettings(const Settings& settings) {
  std::string text =
      absl::StrCat("[", settings.section,
                   "]\n# --help says what holds where nothing is set\n");
  for (const Setting& setting : settings.all) {
    if (setting.values.empty() && setting.where == "default") {
      absl::StrAppend(&text, "# ", setting.key, " is not set\n");
    } else {
      absl::StrAppend(&text, setting.key, " = ", ValueText(setting), "  # ",
                      setting.where, "\n");
    }
  }
  for (const std::string& name : settings.unread) {
    absl::StrAppend(&text, "# no setting reads $", name, "\n");
  }
  return text;
}

}  // namespace plimsoll::services
