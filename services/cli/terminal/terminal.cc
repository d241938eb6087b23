// Finds the abilities of the terminal: colour, UTF-8, width.
#include "services/cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::cli {
namespace {

absl::string_view Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

// The locale of character types is the first of these that is set.
absl::string_view CharacterLocale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const absl::string_view value = Env(name); !value.empty()) return value;
  }
  return "C";
}

bool WantsColor(bool is_tty) {
  if (!Env("NO_COLOR").empty()) return false;
  const absl::string_view force = Env("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return is_tty && Env("TERM") != "dumb";
}

absl::string_view ColorCode(Color color) {
  switch (color) {
    case Color::kRed:
      return "31";
    case Color::kGreen:
      return "32";
    case Color::kYellow:
      return "33";
    case Color::kBlue:
      return "34";
    case Color::kMagenta:
      return "35";
    case Color::kCyan:
      return "36";
    case Color::kDim:
      return "2";
    case Color::kBold:
      return "1";
  }
  return "0";
}

}  // namespace

bool LocaleIsUtf8(absl::string_view locale) {
  return absl::EndsWithIgnoreCase(locale, ".UTF-8") ||
         absl::EndsWithIgnoreCase(locale, ".UTF8") ||
         absl::StrContains(absl::AsciiStrToLower(locale), ".utf-8@") ||
         absl::StrContains(absl::AsciiStrToLower(locale), ".utf8@");
}

Style StyleOf(int fd) {
  Style style;
  style.is_tty = isatty(fd) == 1;
  style.color = WantsColor(style.is_tty);
  style.utf8 = LocaleIsUtf8(CharacterLocale());
  if (const auto columns = WindowColumns(fd)) {
    style.width = static_cast<int>(
        std::clamp<int64_t>(*columns, kMinWidth, kDefaultWidth));
  }
  return style;
}

std::optional<int64_t> WindowColumns(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return std::nullopt;
  }
  return size.ws_col;
}

std::string Paint(const Style& style, Color color, absl::string_view text) {
  if (!style.color) return std::string(text);
  return absl::StrCat("\033[", ColorCode(color), "m", text, "\033[0m");
}

int64_t Columns(absl::string_view text) {
  // Bytes that continue a code point take no column of their own.
  return std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
}

std::string Printable(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\n') {
      c = '?';
    }
  }
  return out;
}

}  // namespace plimsoll::cli
