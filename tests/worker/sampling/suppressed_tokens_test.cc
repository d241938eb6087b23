// What a file may say of tokens that are never drawn.
#include "worker/sampling/suppressed_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/sampling/logit_bias.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::GgufArray;
using ::plimsoll::planner::GgufHeader;
using ::plimsoll::planner::GgufType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kVocabSize = 100;

absl::StatusOr<std::vector<int32_t>> Suppressed(
    const std::vector<double>& numbers) {
  GgufHeader header = {};
  header.metadata["tokenizer.ggml.suppress_tokens"] = {
      GgufType::kArray, GgufArray{.element_type = GgufType::kI32,
                                  .n = std::ssize(numbers),
                                  .offset = 0,
                                  .bytes = 4 * std::ssize(numbers),
                                  .numbers = numbers}};
  return ReadSuppressedTokens(header, kVocabSize);
}

TEST(SuppressedTokensTest, AreThoseOfTheFile) {
  EXPECT_THAT(*Suppressed({0, 99, 7}), ElementsAre(0, 99, 7));
  EXPECT_THAT(*Suppressed({}), IsEmpty());
  EXPECT_THAT(*ReadSuppressedTokens(GgufHeader{}, kVocabSize), IsEmpty());
}

TEST(SuppressedTokensTest, IdsOutsideOfTheVocabularyAreRefused) {
  for (const double id : {-1.0, 100.0, 0.5}) {
    const auto ids = Suppressed({1, id});
    EXPECT_TRUE(absl::IsInvalidArgument(ids.status()));
    EXPECT_THAT(std::string(ids.status().message()),
                HasSubstr("tokenizer.ggml.suppress_tokens"));
  }
}

TEST(SuppressedTokensTest, UpToTheLimitAndNotPastIt) {
  std::vector<double> numbers(LogitBiasOptions::kMaxBiases, 5);
  EXPECT_TRUE(Suppressed(numbers).ok());
  numbers.push_back(5);
  EXPECT_TRUE(absl::IsInvalidArgument(Suppressed(numbers).status()));
}

TEST(SuppressedTokensTest, OtherValuesAreRefused) {
  GgufHeader header = {};
  header.metadata["tokenizer.ggml.suppress_tokens"] = {GgufType::kU32,
                                                       uint64_t{1}};
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadSuppressedTokens(header, kVocabSize).status()));
}

}  // namespace
}  // namespace plimsoll::worker
