// Tokenizers against vectors of other implementations, on vocabularies of
// published models that are cut down to the texts.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/encode.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

nlohmann::json ReadVectors() {
  std::ifstream file("tests/testdata/tokenizer_vectors.json");
  EXPECT_TRUE(file.is_open());
  return nlohmann::json::parse(file);
}

// The tokenizer of an entry of "vocabularies". Tokens are bytes, then what
// merges make, then the others.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadEntry(
    const nlohmann::json& entry) {
  const std::vector<std::string> merges =
      absl::StrSplit(entry["merges"].get<std::string>(), '\n');
  std::vector<std::string> texts;
  const auto add = [&texts](const std::string& text) {
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(text);
    }
  };
  for (const std::string& merge : merges) {
    add(absl::StrReplaceAll(merge, {{" ", ""}}));
  }
  for (const nlohmann::json& other : entry["others"]) add(other);
  std::vector<FixtureToken> tokens;
  for (const std::string& text : texts) tokens.push_back({text});
  if (entry.contains("user_defined")) {
    for (const nlohmann::json& text : entry["user_defined"]) {
      tokens.push_back({text, TokenType::kUserDefined});
    }
  }
  GgufFixture fixture;
  return AddVocab(fixture, ByteLevelVocab(tokens))
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", entry["pre"].get<std::string>())
      .Strings("tokenizer.ggml.merges", merges)
      .Load();
}

// The tokenizer of an entry of "characters", whose tokens are in order.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadCharacters(
    const nlohmann::json& entry) {
  std::vector<FixtureToken> tokens;
  for (size_t i = 0; i < entry["tokens"].size(); ++i) {
    float score = 0;
    if (entry.contains("scores")) score = entry["scores"][i];
    tokens.push_back({entry["tokens"][i],
                      static_cast<TokenType>(entry["types"][i].get<int>()),
                      score});
  }
  GgufFixture fixture;
  AddVocab(fixture, tokens)
      .String("tokenizer.ggml.model", entry["model"].get<std::string>());
  if (entry.contains("merges")) {
    fixture.Strings("tokenizer.ggml.merges", entry["merges"]);
  }
  return fixture.Load();
}

void ExpectIds(const Tokenizer& tokenizer, const nlohmann::json& texts,
               const nlohmann::json& ids) {
  ASSERT_GE(ids.size(), 45u);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string text = texts[i];
    EXPECT_EQ(Encode(tokenizer, text), ids[i].get<std::vector<int32_t>>())
        << text;
  }
}

TEST(TokenizerVectorsTest, EveryVocabularyGivesTheIdsOfItsEngine) {
  const nlohmann::json vectors = ReadVectors();
  ASSERT_EQ(vectors["vocabularies"].size(), 14u);
  for (const nlohmann::json& entry : vectors["vocabularies"]) {
    SCOPED_TRACE(entry["pre"]);
    const auto tokenizer = LoadEntry(entry);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    ExpectIds(**tokenizer, vectors["texts"], entry["ids"]);
  }
}

TEST(TokenizerVectorsTest, VocabulariesOfCharactersDoSoToo) {
  const nlohmann::json vectors = ReadVectors();
  ASSERT_EQ(vectors["characters"].size(), 2u);
  for (const nlohmann::json& entry : vectors["characters"]) {
    SCOPED_TRACE(entry["name"]);
    const auto tokenizer = LoadCharacters(entry);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    ExpectIds(**tokenizer, vectors["texts"], entry["ids"]);
  }
}

}  // namespace
}  // namespace plimsoll::worker
