#include "worker/text/tokenizer/pretokenizer.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sanitized.h"
#include "tests/worker/text/tokenizer/regex_pretokenizer.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::kIsSanitized;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One name of each rule.
constexpr absl::string_view kKnown[] = {
    "bloom",     "viking",   "deepseek-coder", "deepseek-llm", "deepseek-v3",
    "falcon",    "gpt-2",    "gpt-4o",         "kimi-k2",      "laguna",
    "llama-bpe", "minicpm5", "qwen2",          "qwen35",       "seed-coder",
    "smollm",    "tekken",   "ufakzeka"};

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

// Sanitizers make expressions slow.
constexpr size_t kLongBytes = size_t{1} << (kIsSanitized ? 14 : 18);
constexpr int kRandomTexts = kIsSanitized ? 150 : 1'500;

TEST(PreTokenizerTest, AnUnknownNameIsRefusedByName) {
  for (const absl::string_view name : {"", "default", "GPT-2", "jais-2"}) {
    const auto pretokenizer = PreTokenizer::Create(name);
    EXPECT_EQ(pretokenizer.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(pretokenizer.status().message()),
                HasSubstr(absl::StrCat("'", name, "'")));
    EXPECT_THAT(std::string(pretokenizer.status().message()),
                HasSubstr("qwen2, qwen35, refact"));
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

TEST(PreTokenizerTest, Qwen35TakesMarksForLetters) {
  EXPECT_THAT(Split("qwen35", "e\xCC\x81!\xCC\x81"),
              ElementsAre("e\xCC\x81", "!\xCC\x81"));
  EXPECT_THAT(Split("qwen2", "e\xCC\x81!\xCC\x81"),
              ElementsAre("e", "\xCC\x81!\xCC\x81"));
}

TEST(PreTokenizerTest, Gpt4oCutsWhereCapitalsBegin) {
  for (const absl::string_view name : {"gpt-4o", "tekken", "kimi-k2"}) {
    EXPECT_THAT(Split(name, "aHTTPServer XY"),
                ElementsAre("a", "HTTPServer", " XY"));
    // An Arabic letter has no case, so what comes before it may be upper case.
    EXPECT_THAT(Split(name,
                      "AB\xD8\xA7"
                      "CD"),
                ElementsAre("AB\xD8\xA7", "CD"));
    // A mark is a letter without case.
    EXPECT_THAT(Split(name,
                      "\xCC\x81"
                      "AB"),
                ElementsAre("\xCC\x81", "AB"));
  }
}

TEST(PreTokenizerTest, Gpt4oJoinsEndingsToWordsAndTekkenDoesNot) {
  EXPECT_THAT(Split("gpt-4o", "It'S 12345"),
              ElementsAre("It'S", " ", "123", "45"));
  EXPECT_THAT(Split("tekken", "It'S 12"),
              ElementsAre("It", "'S", " ", "1", "2"));
}

TEST(PreTokenizerTest, SlashesMayFollowSigns) {
  for (const absl::string_view name : {"gpt-4o", "tekken"}) {
    EXPECT_THAT(Split(name, "!\n/\n a"), ElementsAre("!\n/\n", " a"));
  }
  EXPECT_THAT(Split("kimi-k2", "!\n/a"), ElementsAre("!\n", "/a"));
  EXPECT_THAT(Split("seed-coder", "!\n"), ElementsAre("!", "\n"));
}

TEST(PreTokenizerTest, HanStandsApartInKimi) {
  const std::string han = "\xE4\xB8\xAD\xE3\x80\x87";  // a letter, a number
  EXPECT_THAT(Split("kimi-k2", absl::StrCat("a", han, "b")),
              ElementsAre("a", han, "b"));
  EXPECT_THAT(Split("gpt-4o", absl::StrCat("a", han, "b")),
              ElementsAre("a\xE4\xB8\xAD", "\xE3\x80\x87", "b"));
}

TEST(PreTokenizerTest, DeepSeek3CutsNumbersAndHanFirst) {
  EXPECT_THAT(Split("deepseek-v3",
                    "a  \xE4\xB8\xAD"
                    "b  1234"),
              ElementsAre("a", "  ", "\xE4\xB8\xAD", "b", "  ", "123", "4"));
  EXPECT_THAT(Split("deepseek-v3",
                    "(abc\xC3\xA9 $x \x01\x02"
                    "d"),
              ElementsAre("(abc", "\xC3\xA9", " $", "x", " ", "\x01",
                          "\x02"
                          "d"));
}

TEST(PreTokenizerTest, OldDeepSeeksCutInTurn) {
  EXPECT_THAT(Split("deepseek-coder", "a  b. (12\n\n"),
              ElementsAre("a", " ", " b", ".", " (", "1", "2", "\n", "\n"));
  EXPECT_THAT(
      Split("deepseek-llm", "a  b. (12\xC2\xA3  \n"),
      ElementsAre("a", " ", " b", ".", " (", "12", "\xC2\xA3", "  ", "\n"));
  // ASCII's letters are signs, too, to the expression after that of letters.
  EXPECT_THAT(Split("deepseek-llm", " caf\xC3\xA9s"),
              ElementsAre(" caf", "\xC3\xA9", "s"));
}

TEST(PreTokenizerTest, BloomCutsAtSomePunctuation) {
  EXPECT_THAT(Split("bloom", "don't: 12  go.\n\nHi"),
              ElementsAre("don't:", " 12", " ", " go", ".\n\n", "Hi"));
  EXPECT_THAT(Split("viking", "a 12"), ElementsAre("a", " ", "1", "2"));
}

TEST(PreTokenizerTest, FalconCutsThreeAsciiDigits) {
  EXPECT_THAT(Split("falcon", "a 1234 it's 12"),
              ElementsAre("a", " ", "123", "4", " it", "'", "s", " 12"));
}

TEST(PreTokenizerTest, ALongRunOfSpacesIsOnePiece) {
  const std::string spaces(4 << 20, ' ');
  for (const absl::string_view name : kKnown) {
    EXPECT_THAT(Split(name, absl::StrCat(spaces, " x")),
                ElementsAre(spaces, " x"));
  }
}

// Quadratic work would take minutes here.
TEST(PreTokenizerTest, TakesTimeInProportionToAnyText) {
  for (const std::string unit : {"1",
                                 "A",
                                 "a",
                                 "\xCC\x81",
                                 "!",
                                 "\n",
                                 " \n",
                                 "\x01",
                                 "\xD9\xA3",
                                 "\xE4\xB8\xAD",
                                 "A\xCC\x81",
                                 "\xCC\x81"
                                 "A",
                                 "Aa",
                                 "AA\xD8\xA7"
                                 "B",
                                 " \xE2\x80\x83",
                                 "\xC2\xA3 ",
                                 "\xC2\xA3 \xE2\x80\x83",
                                 "\xE3\x80\x80",
                                 "12\xD9\xA3",
                                 " 12",
                                 "'s",
                                 "\x01 ",
                                 "a ",
                                 ". "}) {
    std::string text;
    while (text.size() < kLongBytes) text += unit;
    text += "\xC2\xA3";
    for (const absl::string_view name : kKnown) {
      EXPECT_FALSE(Split(name, text).empty());
    }
  }
}

TEST(PreTokenizerTest, OtherNamesSplitAlike) {
  const absl::string_view text = "It'S 1234 x=\n\n  y";
  EXPECT_EQ(Split("llama3", text), Split("llama-bpe", text));
  EXPECT_EQ(Split("deepseek-r1-qwen", text), Split("qwen2", text));
  EXPECT_EQ(Split("phi-2", text), Split("gpt-2", text));
  EXPECT_EQ(Split("starcoder", text), Split("smollm", text));
  EXPECT_EQ(Split("glm4", text), Split("llama-bpe", text));
  EXPECT_EQ(Split("llama4", text), Split("gpt-4o", text));
  EXPECT_EQ(Split("hunyuan-dense", text), Split("deepseek-v3", text));
}

TEST(PreTokenizerTest, EqualsTheVectorsOfAnotherImplementation) {
  std::ifstream file("tests/testdata/pretokenizer_vectors.json");
  ASSERT_TRUE(file.is_open());
  const nlohmann::json vectors = nlohmann::json::parse(file);
  for (const absl::string_view name : kKnown) {
    const nlohmann::json& cuts = vectors["rules"][std::string(name)];
    ASSERT_EQ(cuts.size(), vectors["texts"].size()) << name;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const std::string text = vectors["texts"][i];
      std::vector<size_t> bytes;
      for (const std::string& piece : Split(name, text)) {
        bytes.push_back(piece.size());
      }
      EXPECT_EQ(bytes, cuts[i].get<std::vector<size_t>>()) << name << text;
    }
  }
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
    for (const absl::string_view name : kKnown) {
      std::string joined;
      for (const std::string& piece : Split(name, text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

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
      "\xE3\x80\x87",      // a Han number
      "\xE2\xBA\x80",      // a Han radical, a symbol
      "\xE2\x85\xA7",      // a Roman number
      "\xE2\x80\x83",      // an em space
      "\xE3\x82\xAB",      // a Japanese letter
      "\xE3\x82\x9B",      // a Japanese symbol
      "\xE3\x81\x80",      // a code point among these that stands for nothing
      "\xE3\x80\x82",      // an ideographic full stop
      "\xD8\xA7",          // a letter without case
      "\xE1\xB8\x80",      // a capital above U+0800
      "\xC2\xA3",          // a symbol that is no sign of DeepSeek LLM's
      "/",
      "$",
      "AB",
      "\x01",
  };
  std::mt19937 random(17);
  for (int round = 0; round < kRandomTexts; ++round) {
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
  if (kIsSanitized) GTEST_SKIP() << "classes do not depend on a sanitizer";
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
  // One rule for each alphabet.
  for (const absl::string_view name :
       {"bloom", "deepseek-coder", "deepseek-llm", "deepseek-v3", "falcon",
        "gpt-2", "gpt-4o", "kimi-k2", "laguna", "minicpm5", "qwen35",
        "viking"}) {
    EXPECT_TRUE(Split(name, text) == SplitByRegex(name, text)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::worker
