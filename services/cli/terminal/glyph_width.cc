#include "services/cli/terminal/glyph_width.h"

#include <clocale>
#include <cwchar>

#include "worker/text/code_points.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {

int64_t GlyphColumns(char32_t code_point) {
  if (code_point < 0x300) return 1;  // Latin and controls
  // The widths of the environment's locale may be those of ASCII alone.
  static const locale_t utf8 =
      newlocale(LC_CTYPE_MASK, "C.UTF-8", static_cast<locale_t>(nullptr));
  if (utf8 == static_cast<locale_t>(nullptr)) return 1;
  const locale_t old = uselocale(utf8);
  const int columns = wcwidth(static_cast<wchar_t>(code_point));
  uselocale(old);
  return columns < 0 ? 1 : columns;
}

bool IsControl(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

FrontGlyph FirstGlyph(absl::string_view text) {
  const auto n_bytes = static_cast<size_t>(worker::ReadUtf8Front(text).bytes);
  const absl::string_view bytes = text.substr(0, n_bytes);
  return {worker::TakeCodePoint(text).value_or(0xFFFD), bytes};
}

}  // namespace plimsoll::cli
