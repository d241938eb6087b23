// Normalizers and pre-tokenizers of a tokenizer.json.
#include "services/convert/text_cutting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "worker/text/tokenizer/pretokenizer_names.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer.json with these two members.
Json Tokenizer(const std::string& normalizer,
               const std::string& pre_tokenizer) {
  return Json::parse(absl::StrCat(R"({"normalizer": )", normalizer,
                                  R"(, "pre_tokenizer": )", pre_tokenizer,
                                  "}"));
}

constexpr char kByteLevel[] =
    R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";

std::string Split(const std::string& regex) {
  return absl::StrCat(R"({"type": "Split", "pattern": {"Regex": ")", regex,
                      R"("}, "behavior": "Isolated", "invert": false})");
}

std::string Sequence(const std::string& list, const std::string& steps) {
  return absl::StrCat(R"({"type": "Sequence", ")", list, R"(": [)", steps,
                      "]}");
}

TEST(TextCuttingTest, ExpressionsComeInTheirOrder) {
  const Json tokenizer = Tokenizer(
      R"({"type": "NFC"})",
      Sequence("pretokenizers",
               absl::StrCat(Split("a+"), ",", Split("b+"), ",", kByteLevel)));
  EXPECT_TRUE(IsByteLevel(tokenizer));
  EXPECT_THAT(*ReadExpressions(tokenizer), ElementsAre("a+", "b+"));
}

TEST(TextCuttingTest, ByteLevelCutsByItselfUnlessToldNotTo) {
  EXPECT_THAT(*ReadExpressions(Tokenizer("null", R"({"type": "ByteLevel"})")),
              ElementsAre(worker::kGpt2Expression));
  const std::string digits = R"({"type": "Digits", "individual_digits": true})";
  EXPECT_THAT(
      *ReadExpressions(Tokenizer(
          "null", Sequence("pretokenizers",
                           absl::StrCat(digits, R"(, {"type": "ByteLevel",
                                        "use_regex": true})")))),
      ElementsAre(worker::kDigitExpression, worker::kGpt2Expression));
}

TEST(TextCuttingTest, MatchesMayBeAllThatIsLeft) {
  const Json tokenizer =
      Tokenizer("null", R"({"type": "Split", "pattern": {"Regex": "a|b"},
                            "behavior": "Removed", "invert": true})");
  EXPECT_THAT(*ReadExpressions(tokenizer), ElementsAre("a|b"));
}

void ExpectUnknown(const absl::Status& status, const std::string& words) {
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(TextCuttingTest, StepsThatFilesCannotSayAreNamed) {
  for (
      const char* step :
      {R"({"type": "Whitespace"})",
       R"({"type": "ByteLevel", "add_prefix_space": true})",
       R"({"type": "Digits", "individual_digits": false})",
       R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Isolated"})",
       R"({"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Removed"})",
       "{}", "[]"}) {
    ExpectUnknown(ReadExpressions(Tokenizer("null", step)).status(),
                  "pre-tokenizer");
  }
  ExpectUnknown(
      ReadExpressions(Tokenizer(R"({"type": "Lowercase"})", kByteLevel))
          .status(),
      "Lowercase");
}

constexpr char kMarks[] =
    R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})";

TEST(TextCuttingTest, SentencePieceMarksSpacesInThreeWays) {
  // Gemma's.
  EXPECT_FALSE(*ReadSpacePrefix(
      Tokenizer(kMarks, R"({"type": "Split", "pattern": {"String": " "},
                  "behavior": "MergedWithPrevious", "invert": false})")));
  // Llama 2's, the older and the newer one.
  EXPECT_TRUE(*ReadSpacePrefix(Tokenizer(
      Sequence(
          "normalizers",
          absl::StrCat(R"({"type": "Prepend", "prepend": "▁"}, )", kMarks)),
      "null")));
  const auto metaspace = [](const std::string& scheme) {
    return ReadSpacePrefix(
        Tokenizer("null", absl::StrCat(R"({"type": "Metaspace",
          "replacement": "▁", "split": false, "prepend_scheme": ")",
                                       scheme, "\"}")));
  };
  EXPECT_TRUE(*metaspace("first"));
  EXPECT_FALSE(*metaspace("never"));
}

TEST(TextCuttingTest, OtherWaysOfMarkingAreNamed) {
  ExpectUnknown(ReadSpacePrefix(Tokenizer("null", "null")).status(),
                "normalizer");
  ExpectUnknown(
      ReadSpacePrefix(Tokenizer(R"({"type": "NFKC"})", "null")).status(),
      "NFKC");
  ExpectUnknown(
      ReadSpacePrefix(Tokenizer(kMarks, R"({"type": "Whitespace"})")).status(),
      "Whitespace");
}

}  // namespace
}  // namespace plimsoll::services
