#include "worker/text/utf8.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

std::string Whole(absl::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  return text + stream.Finish();
}

TEST(Utf8Test, LengthIsZeroForBytesThatStartNoCodePoint) {
  for (int byte = 0; byte < 256; ++byte) {
    int expected = 0;
    if (byte < 0x80) expected = 1;
    if (byte >= 0xC2 && byte <= 0xDF) expected = 2;
    if (byte >= 0xE0 && byte <= 0xEF) expected = 3;
    if (byte >= 0xF0 && byte <= 0xF4) expected = 4;
    EXPECT_EQ(Utf8Length(static_cast<unsigned char>(byte)), expected) << byte;
  }
}

TEST(Utf8Test, AcceptsTheFirstAndLastCodePointOfEveryLength) {
  for (const absl::string_view text :
       {"\x01", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(text));
    EXPECT_EQ(Whole(text), std::string(text));
  }
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8(absl::string_view("\0", 1)));
}

TEST(Utf8Test, RejectsOverlongFormsSurrogatesAndWhatLiesBeyondUnicode) {
  for (const absl::string_view text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80",
        "\xFF", "\xC3", "\xE2\x96", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(IsValidUtf8(text));
  }
}

// The example of Unicode 15, chapter 3.9, table 3-11 and its neighbours.
TEST(Utf8StreamTest, ReplacesEachMaximalIllFormedSubsequenceOnce) {
  EXPECT_EQ(Whole("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(Whole("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(Whole("\xED\xA0\x80"), kBad + kBad + kBad);
  EXPECT_EQ(Whole("a\xFFz"), "a" + kBad + "z");
}

TEST(Utf8StreamTest, HoldsASplitCodePointUntilItIsWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xF0"), "a");
  EXPECT_EQ(stream.Push("\x9F\x98"), "");
  EXPECT_EQ(stream.Push("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8StreamTest, HeldBytesBecomeOneReplacementAtTheEnd) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("\xF0\x9F\x98"), "");
  EXPECT_EQ(stream.Finish(), kBad);
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8StreamTest, OutputDoesNotDependOnHowTheBytesWereCut) {
  std::mt19937 random(1);
  const std::string alphabet =
      "aZ\x80\xBF\xC2\xC3\xE0\xE2\xED\xEF\xF0\xF4\xF5\x90\x9F\xA0\x8F";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (size_t n = random() % 12; n > 0; --n) {
      bytes += alphabet[random() % alphabet.size()];
    }
    const std::string expected = Whole(bytes);
    EXPECT_TRUE(IsValidUtf8(expected));
    Utf8Stream stream;
    std::string text;
    for (size_t i = 0; i < bytes.size();) {
      const size_t n = random() % 4;
      const std::string piece = stream.Push(bytes.substr(i, n));
      EXPECT_TRUE(IsValidUtf8(piece));
      text += piece;
      i += n;
    }
    text += stream.Finish();
    ASSERT_EQ(text, expected);
  }
}

}  // namespace
}  // namespace plimsoll::worker
