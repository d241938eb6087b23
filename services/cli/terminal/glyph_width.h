// The columns of text in any script on a terminal.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_GLYPH_WIDTH_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_GLYPH_WIDTH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Returns 0 for a mark that joins the glyph before it, 2 for a wide glyph of
// East Asian scripts or an emoji, else 1, as the C library says, in any locale.
int64_t GlyphColumns(char32_t code_point);

// True for the controls of ASCII and those from U+0080 to U+009F, which
// terminals may obey.
bool IsControl(char32_t code_point);

// A code point at the front of a text.
struct FrontGlyph {
  char32_t code_point;
  absl::string_view bytes;
};
// Returns the first code point of UTF-8 `text`, which is not empty. Bytes that
// are no code point count as U+FFFD.
FrontGlyph FirstGlyph(absl::string_view text);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_GLYPH_WIDTH_H_
