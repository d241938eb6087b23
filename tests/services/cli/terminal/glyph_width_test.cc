#include "services/cli/terminal/glyph_width.h"

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

TEST(GlyphWidthTest, CountsColumnsInAnyLocale) {
  EXPECT_EQ(GlyphColumns(U'a'), 1);
  EXPECT_EQ(GlyphColumns(U'\u00E9'), 1);
  EXPECT_EQ(GlyphColumns(U'\u0416'), 1) << "a letter of Cyrillic";
  EXPECT_EQ(GlyphColumns(U'\u65E5'), 2) << "a sign of Japanese";
  EXPECT_EQ(GlyphColumns(U'\uFF0C'), 2) << "a full-width comma";
  EXPECT_EQ(GlyphColumns(U'\U0001F6A2'), 2) << "a ship";
  EXPECT_EQ(GlyphColumns(U'\u0301'), 0) << "an accent of the letter before";
  EXPECT_EQ(GlyphColumns(U'\u200D'), 0) << "a joiner";
}

TEST(GlyphWidthTest, KnowsControls) {
  for (const char32_t c : {U'\0', U'\n', U'\x1B', U'\x7F', U'\x80', U'\x9F'}) {
    EXPECT_TRUE(IsControl(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U' ', U'~', U'\xA0', U'\u2028'}) {
    EXPECT_FALSE(IsControl(c)) << static_cast<uint32_t>(c);
  }
}

TEST(GlyphWidthTest, TakesCodePointsOneByOne) {
  EXPECT_EQ(FirstGlyph("abc").code_point, U'a');
  EXPECT_EQ(FirstGlyph("abc").bytes, "a");
  EXPECT_EQ(FirstGlyph("\xE6\x97\xA5\xE6").code_point, U'\u65E5');
  EXPECT_EQ(FirstGlyph("\xE6\x97\xA5\xE6").bytes.size(), 3u);
  EXPECT_EQ(FirstGlyph("\xFFz").code_point, U'\uFFFD');
  EXPECT_EQ(FirstGlyph("\xFFz").bytes, "\xFF");
  EXPECT_EQ(FirstGlyph("\xE6\x97").code_point, U'\uFFFD') << "cut";
}

}  // namespace
}  // namespace plimsoll::cli
