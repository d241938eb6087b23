// What is said of tokenizers that are whole, broken, unknown or not there.
#include "services/cli/backends/check_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/planner/tiny_models.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TokenizerCheck CheckFile(const std::vector<std::byte>& bytes) {
  const TemporaryFile on_disk(bytes);
  const auto file = worker::ModelFile::Open(on_disk.path());
  EXPECT_TRUE(file.ok()) << file.status();
  return CheckTokenizer(**file);
}

// Replaces the one place of `from` by text that is as long.
void Replace(std::vector<std::byte>& bytes, absl::string_view from,
             absl::string_view to) {
  ASSERT_EQ(from.size(), to.size());
  const auto* const begin = reinterpret_cast<const std::byte*>(from.data());
  const auto at =
      std::search(bytes.begin(), bytes.end(), begin, begin + from.size());
  ASSERT_NE(at, bytes.end()) << from;
  std::memcpy(&*at, to.data(), to.size());
}

TEST(CheckTokenizerTest, EveryTextComesBackInEveryKindOfVocabulary) {
  for (const char* model : {"llama_q4_1", "gemma_q5_0"}) {
    const TokenizerCheck result =
        CheckFile(RandomModelBytes(FindRandomModel(model)));
    EXPECT_EQ(result.check.state, CheckState::kOk) << result.check.text;
    EXPECT_THAT(result.check.findings, IsEmpty());
    EXPECT_NE(result.tokenizer, nullptr);
    EXPECT_EQ(std::get<double>(result.check.figures.at("texts")),
              std::get<double>(result.check.figures.at("texts_back")));
    EXPECT_THAT(result.check.text,
                AllOf(HasSubstr("323 tokens; 8 of 8 texts come back"),
                      HasSubstr("BOS "), HasSubstr("end token")));
  }
}

TEST(CheckTokenizerTest, ATextThatDoesNotComeBackFails) {
  // The byte of a full stop is another one's, so that no text keeps its own.
  std::vector<std::byte> bytes =
      RandomModelBytes(FindRandomModel("gemma_q5_0"));
  Replace(bytes, "<0x2E>", "<0x2F>");
  const TokenizerCheck result = CheckFile(bytes);
  EXPECT_EQ(result.check.state, CheckState::kFailed);
}

TEST(CheckTokenizerTest, AVocabularyWithoutAnEndIsANote) {
  std::vector<std::byte> bytes =
      RandomModelBytes(FindRandomModel("llama_q4_1"));
  // Neither the key nor the texts of tokens name an end.
  Replace(bytes, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eos_token_ix");
  Replace(bytes, "<|im_end|>", "<|in_end|>");
  Replace(bytes, "<|endoftext|>", "<|endortext|>");
  const TokenizerCheck result = CheckFile(bytes);
  EXPECT_EQ(result.check.state, CheckState::kNote) << result.check.text;
  EXPECT_THAT(result.check.text, HasSubstr("no end token"));
  EXPECT_THAT(result.check.findings,
              Contains(HasSubstr("no token ends a reply")));
}

TEST(CheckTokenizerTest, AnUnknownPreTokenizerIsLeftOutByName) {
  std::vector<std::byte> bytes =
      RandomModelBytes(FindRandomModel("llama_q4_1"));
  Replace(bytes, "smollm", "smell?");
  const TokenizerCheck result = CheckFile(bytes);
  EXPECT_EQ(result.check.state, CheckState::kNote);
  EXPECT_EQ(result.tokenizer, nullptr);
  EXPECT_THAT(result.check.text,
              AllOf(HasSubstr("left out: "), HasSubstr("smell?")));
}

TEST(CheckTokenizerTest, AFileWithoutAVocabularyIsLeftOut) {
  const std::string file = planner::PlannedOnlyBuilder().Build();
  std::vector<std::byte> bytes(file.size());
  std::memcpy(bytes.data(), file.data(), file.size());
  const TokenizerCheck result = CheckFile(bytes);
  EXPECT_EQ(result.check.state, CheckState::kNote);
  EXPECT_EQ(result.tokenizer, nullptr);
  EXPECT_THAT(result.check.text, HasSubstr("no vocabulary"));
}

}  // namespace
}  // namespace plimsoll::cli
