#include "worker/text/tokenizer/pretokenizer.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/regex_pretokenizer.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(absl::string_view name, absl::string_view text) {
  const auto pretokenizer = PreTokenizer::Create(name);
  EXPECT_TRUE(pretokenizer.ok()) << pretokenizer.status();
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t bytes = pretokenizer->FirstPiece(text);
    pieces.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return pieces;
}

TEST(PreTokenizerTest, AnUnknownNameIsRefusedByName) {
  for (const absl::string_view name : {"", "default", "GPT-2", "qwen35"}) {
    const auto pretokenizer = PreTokenizer::Create(name);
    EXPECT_EQ(pretokenizer.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(pretokenizer.status().message()),
                HasSubstr(absl::StrCat("'", name, "'")));
  }
}

TEST(PreTokenizerTest, Gpt2KeepsOneSpaceInFrontOfWords) {
  EXPECT_THAT(Split("gpt-2", "Hello  world 123!? x"),
              ElementsAre("Hello", " ", " world", " 123", "!?", " x"));
  EXPECT_THAT(Split("gpt-2", " \n  x"), ElementsAre(" \n ", " x"));
  EXPECT_THAT(Split("gpt-2", "x \n "), ElementsAre("x", " \n "));
}

TEST(PreTokenizerTest, ContractionsAreLowerCaseOnly) {
  EXPECT_THAT(Split("gpt-2", "I'LL we'll"),
              ElementsAre("I", "'", "LL", " we", "'ll"));
}

TEST(PreTokenizerTest, SmolLmCutsEveryDigitFirst) {
  EXPECT_THAT(Split("smollm", "a  12 b"),
              ElementsAre("a", "  ", "1", "2", " b"));
  EXPECT_THAT(Split("gpt-2", "a  12 b"), ElementsAre("a", " ", " 12", " b"));
}

TEST(PreTokenizerTest, LlamaBpeTakesThreeDigitsAndQwen2One) {
  EXPECT_THAT(Split("llama-bpe", "a 12345"),
              ElementsAre("a", " ", "123", "45"));
  EXPECT_THAT(Split("qwen2", "a 123"), ElementsAre("a", " ", "1", "2", "3"));
}

TEST(PreTokenizerTest, LlamaBpeJoinsOneSignToAWordAndNewLinesToSigns) {
  for (const absl::string_view name : {"llama-bpe", "qwen2"}) {
    EXPECT_THAT(Split(name, "x=(yes) \tno\n"),
                ElementsAre("x", "=(", "yes", ")", " ", "\tno", "\n"));
    EXPECT_THAT(Split(name, "a !?\r\n\nb"), ElementsAre("a", " !?\r\n\n", "b"));
    EXPECT_THAT(Split(name, "a  \n \n  b"),
                ElementsAre("a", "  \n \n", " ", " b"));
    EXPECT_THAT(Split(name, "a   "), ElementsAre("a", "   "));
  }
}

TEST(PreTokenizerTest, LlamaBpeContractionsAreAsciiInEitherCase) {
  for (const absl::string_view name : {"llama-bpe", "qwen2"}) {
    EXPECT_THAT(Split(name, "I'LL we'Ve it's"),
                ElementsAre("I", "'LL", " we", "'Ve", " it", "'s"));
    // U+017F, which folds to an s, is a letter like any other.
    EXPECT_THAT(Split(name, "it'\xC5\xBFx"), ElementsAre("it", "'\xC5\xBFx"));
  }
}

TEST(PreTokenizerTest, ALongRunOfSpacesIsOnePiece) {
  const std::string spaces(4 << 20, ' ');
  for (const absl::string_view name : {"gpt-2", "llama-bpe", "qwen2"}) {
    EXPECT_THAT(Split(name, absl::StrCat(spaces, " x")),
                ElementsAre(spaces, " x"));
  }
}

TEST(PreTokenizerTest, OtherNamesSplitAlike) {
  const absl::string_view text = "It'S 1234 x=\n\n  y";
  EXPECT_EQ(Split("llama3", text), Split("llama-bpe", text));
  EXPECT_EQ(Split("deepseek-r1-qwen", text), Split("qwen2", text));
  EXPECT_EQ(Split("phi-2", text), Split("gpt-2", text));
  EXPECT_EQ(Split("starcoder", text), Split("smollm", text));
}

TEST(PreTokenizerTest, WhiteSpaceIsUnicodes) {
  // U+0085, U+00A0, U+2028, U+3000 are; U+180E, U+200B, U+FEFF, U+001C are not.
  for (const std::string space :
       {"\xC2\x85", "\xC2\xA0", "\xE2\x80\xA8", "\xE3\x80\x80"}) {
    EXPECT_THAT(Split("gpt-2", absl::StrCat("!", space, "!")),
                ElementsAre("!", space, "!"));
  }
  for (const std::string other :
       {"\xE1\xA0\x8E", "\xE2\x80\x8B", "\xEF\xBB\xBF", "\x1C"}) {
    EXPECT_THAT(Split("gpt-2", absl::StrCat("!", other, "!")),
                ElementsAre(absl::StrCat("!", other, "!")));
  }
}

TEST(PreTokenizerTest, IllFormedBytesAreAPieceOfTheirOwn) {
  EXPECT_THAT(Split("gpt-2",
                    "ab\xFF\xFE"
                    "cd\xE2\x96"),
              ElementsAre("ab", "\xFF\xFE", "cd", "\xE2\x96"));
}

TEST(PreTokenizerTest, PiecesJoinToTheTextWhateverItsBytes) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) {
      const char any = static_cast<char>(random() % 256);
      text += random() % 3 == 0 ? any : " \n'sa1!"[random() % 7];
    }
    for (const absl::string_view name : {"gpt-2", "smollm"}) {
      std::string joined;
      for (const std::string& piece : Split(name, text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

constexpr absl::string_view kKnown[] = {"gpt-2", "smollm", "llama-bpe",
                                        "qwen2"};

TEST(PreTokenizerTest, EqualsItsExpressionOnAnyText) {
  // Everything that an expression names, neighbours in Unicode, and bytes that
  // are no text.
  const std::vector<std::string> parts = {
      " ",
      " ",
      "\n",
      "\r",
      "\t",
      "'",
      "'s",
      "'LL",
      "'re",
      "a",
      "Z",
      "s",
      "ll",
      "1",
      "9",
      "!",
      "(",
      "-",
      "\xFF",
      "\xE2",
      "\x80",
      std::string(1, '\0'),
      "\xC3\xA9",
      "\xC2\xA0",
      "\xC5\xBF",          // U+017F folds to an s
      "\xC2\x85",          // next line
      "\xE1\xA0\x8E",      // U+180E
      "\xE2\x80\xA8",      // line separator
      "\xE3\x80\x80",      // ideographic space
      "\xD9\xA3",          // an Arabic digit
      "\xC2\xBD",          // one half
      "\xE4\xB8\xAD",      // an ideograph
      "\xCC\x81",          // a combining accent
      "\xF0\x9F\x98\x80",  // a smiling face
      "\xF0\x9D\x9F\x99",  // a mathematical digit
  };
  std::mt19937 random(17);
  for (int round = 0; round < 1500; ++round) {
    std::string text;
    for (size_t n = 1 + random() % 24; n > 0; --n) {
      // Runs are what most of an expression is about.
      const size_t times = random() % 4 == 0 ? 1 + random() % 5 : 1;
      const std::string& part = parts[random() % parts.size()];
      for (size_t i = 0; i < times; ++i) text += part;
    }
    for (const absl::string_view name : kKnown) {
      ASSERT_EQ(Split(name, text), SplitByRegex(name, text)) << name << text;
    }
  }
}

TEST(PreTokenizerTest, EqualsItsExpressionOnEveryCodePoint) {
  std::string text;
  for (uint32_t c = 1; c <= kMaxCodePoint; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    // Neighbours of one class make one piece, so each stands apart, too.
    AppendUtf8(c, text);
    if (c < 0x30000) {
      text += "a ";
      AppendUtf8(c, text);
      text += c % 2 == 0 ? "1!" : "\n";
    }
  }
  for (const absl::string_view name : kKnown) {
    EXPECT_TRUE(Split(name, text) == SplitByRegex(name, text)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::worker
