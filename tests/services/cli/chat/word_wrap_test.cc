#include "services/cli/chat/word_wrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace plimsoll::cli {
namespace {

// The whole output for text that comes in pieces of `n_bytes`.
std::string WrappedInPieces(absl::string_view text, int64_t width,
                            size_t n_bytes) {
  WordWrap wrap(width);
  std::string out;
  while (!text.empty()) {
    size_t n = std::min(n_bytes, text.size());
    // Pieces of a reply are whole code points.
    while (n < text.size() && (text[n] & 0xC0) == 0x80) ++n;
    out += wrap.Push(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out + wrap.Flush();
}

std::string Wrapped(absl::string_view text, int64_t width) {
  return WrappedInPieces(text, width, text.size());
}

TEST(WordWrapTest, BreaksLinesAtBlanks) {
  EXPECT_EQ(Wrapped("the sea is salty", 8), "the sea\nis salty");
  EXPECT_EQ(Wrapped("the sea is salty", 7), "the sea\nis\nsalty");
  EXPECT_EQ(Wrapped("the sea", 80), "the sea");
}

TEST(WordWrapTest, KeepsLineFeedsAndIndents) {
  EXPECT_EQ(Wrapped("one\n\n  two three four", 11), "one\n\n  two three\nfour");
  EXPECT_EQ(Wrapped("one  \r\ntwo", 80), "one\ntwo");
  EXPECT_EQ(Wrapped("\n\none", 80), "\n\none");
}

TEST(WordWrapTest, TheSameWhateverThePieces) {
  const std::string text =
      "Seawater is salty, because rivers carry salts.\n\n- one item\n"
      "- \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E and na\xC3\xAFve words\n"
      "```c\nint main() { return a_long_line_of_code + another_one; }\n```\n"
      "and a_very_long_word_that_is_longer_than_the_line after it";
  for (const int64_t width : {1, 5, 12, 20, 33, 200}) {
    for (const size_t n : {1u, 2u, 3u, 7u, 50u}) {
      EXPECT_EQ(WrappedInPieces(text, width, n), Wrapped(text, width))
          << width << " " << n;
    }
  }
}

TEST(WordWrapTest, HoldsAWordBackUntilItIsWhole) {
  WordWrap wrap(10);
  EXPECT_EQ(wrap.Push("the oce"), "the");
  EXPECT_EQ(wrap.Push("anic"), "");
  EXPECT_EQ(wrap.Push(" "), "\noceanic");
  EXPECT_EQ(wrap.Push("x"), "");
  EXPECT_EQ(wrap.Flush(), " x");
  EXPECT_TRUE(wrap.IsLineOpen());
  EXPECT_EQ(wrap.Push("\n"), "\n");
  EXPECT_FALSE(wrap.IsLineOpen());
}

TEST(WordWrapTest, LeavesALongWordToTheTerminal) {
  const std::string url = "https://example.org/a/long/way";
  EXPECT_EQ(Wrapped("see " + url + " now", 10), "see\n" + url + "\nnow");
  EXPECT_EQ(Wrapped(url, 10), url);
  WordWrap wrap(10);
  EXPECT_EQ(wrap.Push(url.substr(0, 12)), url.substr(0, 12))
      << "it is not held back";
  EXPECT_EQ(wrap.Push(url.substr(12)), url.substr(12));
}

TEST(WordWrapTest, LeavesCodeToTheTerminal) {
  const std::string code =
      "```\na line of code that is longer than the window\n\n  x = 1\n```\n";
  EXPECT_EQ(Wrapped(code + "and text that is", 10), code + "and text\nthat is");
  EXPECT_EQ(Wrapped("~~~\n``` is no end of it\n~~~\nand text that is", 10),
            "~~~\n``` is no end of it\n~~~\nand text\nthat is");
  EXPECT_EQ(Wrapped("```code``` and more of it", 14),
            "```code``` and\nmore of it")
      << "code within a line";
}

TEST(WordWrapTest, BreaksBetweenWideGlyphs) {
  // Six signs of two columns.
  const std::string signs =
      "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA"
      "\x9E";
  std::string wanted = signs;
  wanted.insert(9, "\n");
  EXPECT_EQ(Wrapped(signs, 7), wanted);
  // An accent takes no column, and joined glyphs stay together.
  EXPECT_EQ(Wrapped("cafe\xCC\x81 noir", 9), "cafe\xCC\x81 noir");
  const std::string family = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
  EXPECT_EQ(Wrapped(family + " ab", 5), family + " ab");
}

TEST(WordWrapTest, CountsTabs) {
  EXPECT_EQ(Wrapped("a\tb", 8), "a\nb");
  EXPECT_EQ(Wrapped("a\tb", 9), "a\tb");
}

TEST(WordWrapTest, NoTextMovesTheCursor) {
  EXPECT_EQ(Wrapped("a\x1B[2Jb\x07 \xC2\x9B"
                    "c",
                    80),
            "a?[2Jb? ?c");
}

TEST(WordWrapTest, FollowsTheWindow) {
  WordWrap wrap(80);
  EXPECT_EQ(wrap.Push("one two "), "one two");
  wrap.SetWidth(8);
  EXPECT_EQ(wrap.Push("three four "), "\nthree\nfour");
}

}  // namespace
}  // namespace plimsoll::cli
