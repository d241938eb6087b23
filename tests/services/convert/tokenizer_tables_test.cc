// Tokenizers from the JSON files of a checkpoint.
#include "services/convert/tokenizer_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "services/convert/input.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Byte-level BPE: five tokens, of which two are added.
Json ByteLevel() {
  return Json::parse(R"({
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "added_tokens": [
      {"id": 3, "content": "<s>", "special": true},
      {"id": 4, "content": "<tool>", "special": false}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
              "merges": ["a b"]}})");
}

Json SentencePiece() {
  return Json::parse(R"({
    "normalizer": {"type": "Replace", "pattern": {"String": " "},
                   "content": "▁"},
    "pre_tokenizer": null,
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                     {"id": 1, "content": "<s>", "special": true}],
    "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}]},
    "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
              "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "▁": 3, "a": 4,
                        "▁a": 5},
              "merges": [["▁", "a"]]}})");
}

// The files beside the tokenizer's.
struct OtherFiles {
  Json config = Json::object();
  Json generation = Json::object();
};

absl::StatusOr<TokenizerTables> Read(const Json& tokenizer, int64_t n_rows,
                                     const OtherFiles& others) {
  return ReadTokenizerTables({.tokenizer = tokenizer.dump(),
                              .config = others.config.dump(),
                              .generation = others.generation.dump()},
                             n_rows, "");
}

void ExpectError(absl::StatusCode code, const Json& tokenizer,
                 const std::string& words) {
  const auto tables = Read(tokenizer, 6, {});
  EXPECT_EQ(tables.status().code(), code) << tables.status();
  EXPECT_THAT(std::string(tables.status().message()), HasSubstr(words));
}

void ExpectInvalid(const Json& tokenizer, const std::string& words) {
  ExpectError(absl::StatusCode::kInvalidArgument, tokenizer, words);
}

TEST(TokenizerTablesTest, ReadsByteLevelBpe) {
  const auto tables = Read(ByteLevel(), 6, {});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->model, "gpt2");
  EXPECT_EQ(tables->pre, "gpt-2");
  EXPECT_THAT(tables->tokens,
              ElementsAre("a", "b", "ab", "<s>", "<tool>", "[PAD5]"));
  EXPECT_THAT(tables->types, ElementsAre(1, 1, 1, 3, 4, 5));
  EXPECT_THAT(tables->merges, ElementsAre("a b"));
  EXPECT_THAT(tables->scores, IsEmpty());
  EXPECT_FALSE(tables->space_prefix.has_value());
  EXPECT_FALSE(tables->bos.has_value());
  EXPECT_THAT(tables->ends, IsEmpty());
  EXPECT_FALSE(tables->adds_bos);
}

TEST(TokenizerTablesTest, ReadsSentencePiece) {
  const auto tables = Read(SentencePiece(), 6,
                           {.config = {{"bos_token", {{"content", "<s>"}}}}});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->model, "llama");
  EXPECT_THAT(tables->types, ElementsAre(2, 3, 6, 1, 1, 1));
  EXPECT_THAT(tables->scores, ElementsAre(0, 0, 0, 0, 0, -1));
  EXPECT_EQ(tables->space_prefix, false);
  EXPECT_EQ(tables->bos, 1u);
  EXPECT_EQ(tables->unknown, 0u);
  EXPECT_TRUE(tables->adds_bos);  // by the post-processor
}

TEST(TokenizerTablesTest, RunsOfSpacesThatAreAddedTokensAreFoundInText) {
  Json tokenizer = SentencePiece();
  tokenizer["model"]["vocab"]["▁▁"] = 6;
  tokenizer["model"]["merges"].push_back({"▁", "▁"});
  tokenizer["added_tokens"].push_back(
      {{"id", 6}, {"content", "▁▁"}, {"special", false}});
  const auto tables = Read(tokenizer, 7, {});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->tokens[6], "  ");
  EXPECT_EQ(tables->types[6], 4);
  EXPECT_EQ(tables->scores[6], 0);
}

TEST(TokenizerTablesTest, TheConfigSaysWhetherBosIsAdded) {
  const auto tables =
      Read(SentencePiece(), 6,
           {.config = {{"bos_token", "<s>"}, {"add_bos_token", false}}});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_FALSE(tables->adds_bos);
  Json sequence = ByteLevel();
  sequence["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}}, SentencePiece()["post_processor"]}}};
  EXPECT_TRUE(Read(sequence, 6, {.config = {{"bos_token", "<s>"}}})->adds_bos);
  EXPECT_FALSE(Read(sequence, 6, {})->adds_bos);
}

TEST(TokenizerTablesTest, EndsComeOnceAndTheUsualOneFirst) {
  const auto ends = [](const Json& generation) {
    return Read(ByteLevel(), 6,
                {.config = {{"eos_token", "<s>"}}, .generation = generation})
        ->ends;
  };
  EXPECT_THAT(ends(Json::object()), ElementsAre(3));
  EXPECT_THAT(ends({{"eos_token_id", 2}}), ElementsAre(3, 2));
  EXPECT_THAT(ends({{"eos_token_id", {4, 3, 2}}}), ElementsAre(3, 4, 2));
  const auto odd = Read(ByteLevel(), 6, {.generation = {{"eos_token_id", 6}}});
  EXPECT_TRUE(absl::IsInvalidArgument(odd.status()));
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("eos_token_id"));
}

TEST(TokenizerTablesTest, TokensThatTemplatesAreMadeOfAreControl) {
  for (const char* text : {"<|fim_prefix|>", "<unused7>"}) {
    Json tokenizer = ByteLevel();
    tokenizer["added_tokens"][1]["content"] = text;
    EXPECT_EQ(Read(tokenizer, 6, {})->types[4], 3) << text;
  }
}

TEST(TokenizerTablesTest, TheTemplateIsInOneOfThreePlaces) {
  EXPECT_EQ(Read(ByteLevel(), 6, {.config = {{"chat_template", "one"}}})
                ->chat_template,
            "one");
  const Json list = {{{"name", "tool_use"}, {"template", "no"}},
                     {{"name", "default"}, {"template", "two"}}};
  EXPECT_EQ(Read(ByteLevel(), 6, {.config = {{"chat_template", list}}})
                ->chat_template,
            "two");
  const auto file =
      ReadTokenizerTables({.tokenizer = ByteLevel().dump(),
                           .config = R"({"chat_template": "one"})",
                           .generation = "",
                           .chat = "three"},
                          6, "");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->chat_template, "three");
}

TEST(TokenizerTablesTest, IdsMustBeRowsAndDifferent) {
  EXPECT_TRUE(Read(ByteLevel(), 5, {}).ok());
  const auto few = Read(ByteLevel(), 4, {});
  EXPECT_TRUE(absl::IsInvalidArgument(few.status()));
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("4 rows"));
  Json tokenizer = ByteLevel();
  tokenizer["model"]["vocab"]["b"] = 0;
  ExpectInvalid(tokenizer, "two tokens");
  tokenizer["model"]["vocab"]["b"] = -1;
  ExpectInvalid(tokenizer, "id -1");
  tokenizer["model"]["vocab"]["b"] = "1";
  ExpectInvalid(tokenizer, "\"b\"");
}

TEST(TokenizerTablesTest, MergesAreTwoTexts) {
  for (const Json& odd : {Json("ab"), Json(1), Json({"a"}), Json({"a", 1}),
                          Json({"a", "b", "c"})}) {
    Json tokenizer = ByteLevel();
    tokenizer["model"]["merges"][0] = odd;
    ExpectInvalid(tokenizer, "merge");
  }
  Json spaced = ByteLevel();
  spaced["model"]["merges"][0] = {"a ", "b"};
  ExpectInvalid(spaced, "space");
}

TEST(TokenizerTablesTest, WhatCannotBeConvertedIsNamed) {
  const auto refuse = [](const Json& tokenizer, const std::string& words) {
    ExpectError(absl::StatusCode::kUnimplemented, tokenizer, words);
  };
  refuse({{"model", {{"type", "Unigram"}}}}, "\"Unigram\"");
  Json plain = SentencePiece();
  plain["model"]["byte_fallback"] = false;
  refuse(plain, "a token for each byte");
  Json cut = ByteLevel();
  cut["pre_tokenizer"] = {{"type", "Sequence"},
                          {"pretokenizers",
                           {{{"type", "Split"},
                             {"pattern", {{"Regex", "x+"}}},
                             {"behavior", "Isolated"}},
                            {{"type", "ByteLevel"}, {"use_regex", false}}}}};
  refuse(cut, "\"x+\"");
  refuse(cut, "--pre");
  const auto named = ReadTokenizerTables({.tokenizer = cut.dump()}, 6, "qwen2");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->pre, "qwen2");
  EXPECT_TRUE(absl::IsUnimplemented(
      ReadTokenizerTables({.tokenizer = cut.dump()}, 6, "qwen1").status()));
}

TEST(TokenizerTablesTest, FilesThatAreNoJsonAreNamed) {
  const auto tables =
      ReadTokenizerTables({.tokenizer = "{", .config = ""}, 6, "");
  EXPECT_THAT(std::string(tables.status().message()),
              HasSubstr("tokenizer.json: it is not JSON"));
  const auto config = ReadTokenizerTables(
      {.tokenizer = ByteLevel().dump(), .config = "[]"}, 6, "");
  EXPECT_THAT(std::string(config.status().message()),
              HasSubstr("tokenizer_config.json is not an object"));
}

}  // namespace
}  // namespace plimsoll::services
