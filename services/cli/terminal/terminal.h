// What the terminal can show: colour, UTF-8, width. Decided once per stream.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_TERMINAL_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_TERMINAL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Columns of output that nobody resizes: files, pipes, narrow documents.
inline constexpr int kDefaultWidth = 80;
inline constexpr int kMinWidth = 40;

struct Style {
  bool is_tty = false;
  bool color = false;
  bool utf8 = false;
  int width = kDefaultWidth;
};

// The style of file descriptor `fd`. Colour on a terminal only, never with
// NO_COLOR set to something, always with CLICOLOR_FORCE set to other than "0".
// UTF-8 as the environment's locale says (LC_ALL, LC_CTYPE, LANG). At most
// kDefaultWidth columns.
Style StyleOf(int fd);

// True if a locale name ("C.UTF-8", "de_DE.utf8") says UTF-8.
bool LocaleIsUtf8(absl::string_view locale);

enum class Color { kRed, kGreen, kYellow, kBlue, kMagenta, kCyan, kDim, kBold };

// `text` in `color` if the style has colours.
std::string Paint(const Style& style, Color color, absl::string_view text);

// Columns that UTF-8 `text` takes, one per code point (our own glyphs are one
// column wide each).
int64_t Columns(absl::string_view text);

// Text that a file or a server supplied, safe to print on a terminal: control
// characters become '?', so it cannot move the cursor or change colours.
std::string Printable(absl::string_view text);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_TERMINAL_H_
