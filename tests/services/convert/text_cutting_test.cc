// Normalizers and pre-tokenizers of a tokenizer.json.
#include "services/convert/text_cutting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/text/tokenizer/pretokenizer_names.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer.json with these two members.
Json Tokenizer(const Json& normalizer, const Json& pre_tokenizer) {
  return {{"normalizer", normalizer}, {"pre_tokenizer", pre_tokenizer}};
}

Json ByteLevelStep() {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
}

Json Split(const std::string& regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json Sequence(const std::string& list, const std::vector<Json>& steps) {
  return {{"type", "Sequence"}, {list, steps}};
}

TEST(TextCuttingTest, ExpressionsComeInTheirOrder) {
  const Json tokenizer = Tokenizer(
      {{"type", "NFC"}},
      Sequence("pretokenizers", {Split("a+"), Split("b+"), ByteLevelStep()}));
  EXPECT_TRUE(IsByteLevel(tokenizer));
  EXPECT_THAT(*ReadExpressions(tokenizer), ElementsAre("a+", "b+"));
}

TEST(TextCuttingTest, ByteLevelCutsByItselfUnlessToldNotTo) {
  EXPECT_THAT(*ReadExpressions(Tokenizer(nullptr, {{"type", "ByteLevel"}})),
              ElementsAre(worker::kGpt2Expression));
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const Json bytes = {{"type", "ByteLevel"}, {"use_regex", true}};
  EXPECT_THAT(*ReadExpressions(Tokenizer(
                  nullptr, Sequence("pretokenizers", {digits, bytes}))),
              ElementsAre(worker::kDigitExpression, worker::kGpt2Expression));
}

TEST(TextCuttingTest, MatchesMayBeAllThatIsLeft) {
  const Json tokenizer = Tokenizer(nullptr, {{"type", "Split"},
                                             {"pattern", {{"Regex", "a|b"}}},
                                             {"behavior", "Removed"},
                                             {"invert", true}});
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
    ExpectUnknown(
        ReadExpressions(Tokenizer(nullptr, Json::parse(step))).status(),
        "pre-tokenizer");
  }
  ExpectUnknown(
      ReadExpressions(Tokenizer({{"type", "Lowercase"}}, ByteLevelStep()))
          .status(),
      "Lowercase");
}

Json Marks() {
  return {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
}

TEST(TextCuttingTest, SentencePieceMarksSpacesInThreeWays) {
  // Gemma's.
  EXPECT_FALSE(
      *ReadSpacePrefix(Tokenizer(Marks(), {{"type", "Split"},
                                           {"pattern", {{"String", " "}}},
                                           {"behavior", "MergedWithPrevious"},
                                           {"invert", false}})));
  // Llama 2's, the older and the newer one.
  const Json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  EXPECT_TRUE(*ReadSpacePrefix(
      Tokenizer(Sequence("normalizers", {prepend, Marks()}), nullptr)));
  const auto metaspace = [](const std::string& scheme) {
    return ReadSpacePrefix(Tokenizer(nullptr, {{"type", "Metaspace"},
                                               {"replacement", "▁"},
                                               {"split", false},
                                               {"prepend_scheme", scheme}}));
  };
  EXPECT_TRUE(*metaspace("first"));
  EXPECT_FALSE(*metaspace("never"));
}

TEST(TextCuttingTest, OtherWaysOfMarkingAreNamed) {
  ExpectUnknown(ReadSpacePrefix(Tokenizer(nullptr, nullptr)).status(),
                "normalizer");
  ExpectUnknown(
      ReadSpacePrefix(Tokenizer({{"type", "NFKC"}}, nullptr)).status(), "NFKC");
  ExpectUnknown(
      ReadSpacePrefix(Tokenizer(Marks(), {{"type", "Whitespace"}})).status(),
      "Whitespace");
}

}  // namespace
}  // namespace plimsoll::services
