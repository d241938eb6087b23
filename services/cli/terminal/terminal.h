// The abilities of the terminal: colour, UTF-8, width. They are determined once
// per stream.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_TERMINAL_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_TERMINAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// The width of output without a window: files, pipes, narrow documents.
inline constexpr int kDefaultWidth = 80;
inline constexpr int kMinWidth = 40;

struct Style {
  bool is_tty = false;
  bool color = false;
  bool utf8 = false;
  int width = kDefaultWidth;
};

// Finds the style of file descriptor `fd`. Colour is on for a terminal, off if
// NO_COLOR is not empty, and on if CLICOLOR_FORCE is set and not "0". UTF-8
// follows the environment's locale (LC_ALL, LC_CTYPE, LANG). The width is at
// most kDefaultWidth columns.
Style StyleOf(int fd);

// Returns the present columns of the terminal at file descriptor `fd`; nullopt
// if it is no terminal or does not tell.
std::optional<int64_t> WindowColumns(int fd);

// True if a locale name ("C.UTF-8", "de_DE.utf8") means UTF-8.
bool LocaleIsUtf8(absl::string_view locale);

enum class Color { kRed, kGreen, kYellow, kBlue, kMagenta, kCyan, kDim, kBold };

// Returns `text` in `color` if the style has colours.
std::string Paint(const Style& style, Color color, absl::string_view text);

// The columns that UTF-8 `text` takes, one per code point (our own glyphs are
// one column wide).
int64_t Columns(absl::string_view text);

// Makes text from a file or a server safe to print on a terminal: control
// characters become '?', so that it cannot move the cursor or change colours.
std::string Printable(absl::string_view text);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_TERMINAL_H_
