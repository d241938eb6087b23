#include "worker/text/plain_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "worker/text/code_points.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

PlainText::Position AfterAll(const std::string& text, PlainText::Kind kind) {
  PlainText::Position at = PlainText::kStart;
  for (const char one : text) {
    at = PlainText::After(kind, at, static_cast<uint8_t>(one));
  }
  return at;
}

bool IsPlain(uint32_t code_point) {
  return code_point >= 0x20 && code_point != '"' && code_point != '\\' &&
         code_point != '<';
}

TEST(PlainTextTest, EveryCharacterIsPlainOrNot) {
  for (uint32_t c = 0; c <= kMaxCodePoint; ++c) {
    if (!IsCharacter(c)) continue;
    std::string text;
    AppendUtf8(c, text);
    ASSERT_EQ(AfterAll(text, PlainText::kPlain) == PlainText::kStart,
              IsPlain(c))
        << c;
  }
}

TEST(PlainTextTest, WordsAreLettersAndDigits) {
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_word = (byte >= '0' && byte <= '9') ||
                         (byte >= 'A' && byte <= 'Z') ||
                         (byte >= 'a' && byte <= 'z');
    EXPECT_EQ(AfterAll({'x', static_cast<char>(byte)}, PlainText::kWord),
              is_word ? PlainText::kStart : PlainText::kOutside);
  }
  EXPECT_EQ(AfterAll("a b", PlainText::kWord), PlainText::kOutside);
}

TEST(PlainTextTest, OnlyWellFormedTextIsPlain) {
  std::mt19937 random(1);
  const std::string bytes =
      "a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0"
      "\xF1\xF3\xF4\xF5\xFF";
  int n_plain = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    std::string text;
    for (auto n = random() % 5; n > 0; --n) {
      text += bytes[random() % bytes.size()];
    }
    const bool is_plain =
        AfterAll(text, PlainText::kPlain) == PlainText::kStart;
    ASSERT_EQ(is_plain, IsValidUtf8(text)) << i;
    n_plain += is_plain ? 1 : 0;
  }
  EXPECT_GT(n_plain, 1'000);
}

}  // namespace
}  // namespace plimsoll::worker
