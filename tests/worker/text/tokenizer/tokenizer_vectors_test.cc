// Byte-level BPE against vectors of other implementations, on vocabularies of
// published models that are cut down to the texts.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/encode.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

// The tokenizer of an entry of tests/testdata/tokenizer_vectors.json. Tokens
// are bytes, then what merges make, then the others.
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
  GgufFixture fixture;
  return AddVocab(fixture, ByteLevelVocab(tokens))
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", entry["pre"].get<std::string>())
      .Strings("tokenizer.ggml.merges", merges)
      .Load();
}

TEST(TokenizerVectorsTest, EveryVocabularyGivesTheIdsOfItsEngine) {
  std::ifstream file("tests/testdata/tokenizer_vectors.json");
  ASSERT_TRUE(file.is_open());
  const nlohmann::json vectors = nlohmann::json::parse(file);
  ASSERT_EQ(vectors["vocabularies"].size(), 11u);
  for (const nlohmann::json& entry : vectors["vocabularies"]) {
    const auto tokenizer = LoadEntry(entry);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    ASSERT_GE(entry["ids"].size(), 46u);
    for (size_t i = 0; i < entry["ids"].size(); ++i) {
      const std::string text = vectors["texts"][i];
      EXPECT_EQ(Encode(**tokenizer, text),
                entry["ids"][i].get<std::vector<int32_t>>())
          << entry["pre"] << ": " << text;
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker
