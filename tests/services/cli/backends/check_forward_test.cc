// Verdicts on forward passes, and passes of models that are sound or damaged.
#include "services/cli/backends/check_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/planner/tiny_models.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::Spoil;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

double FigureOf(const Check& check, const std::string& name) {
  return std::get<double>(check.figures.at(name));
}

struct ForwardSetup {
  Spoil spoil = nullptr;
  std::vector<std::string>* told = nullptr;  // gets the steps that are told
};

// The three checks of a model.
std::vector<Check> ForwardOf(const std::string& model,
                             const ForwardSetup& setup) {
  const TemporaryFile on_disk(
      SpoiledModelBytes(FindRandomModel(model), setup.spoil));
  const auto file = worker::ModelFile::Open(on_disk.path());
  EXPECT_TRUE(file.ok()) << file.status();
  const auto tokenizer = worker::LoadTokenizer((*file)->header(), **file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  auto checks =
      CheckForward(**file, **tokenizer, 2, [&](const std::string& step) {
        if (setup.told != nullptr) setup.told->push_back(step);
      });
  EXPECT_TRUE(checks.ok()) << checks.status();
  return checks.ok() ? *std::move(checks) : std::vector<Check>(3);
}

class ForwardTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, ForwardTest,
                         ::testing::Values("llama_half", "llama_q4_1",
                                           "gemma_k", "qwen3moe_q4_0",
                                           "gemma4_shared"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST_P(ForwardTest, KernelsAgreeWithTheReferenceAndRandomWeightsAreNoticed) {
  std::vector<std::string> told;
  const std::vector<Check> checks = ForwardOf(GetParam(), {.told = &told});
  ASSERT_THAT(checks, SizeIs(3));
  EXPECT_EQ(checks[0].name, "forward exact");
  EXPECT_EQ(checks[0].state, CheckState::kOk) << checks[0].text;
  EXPECT_THAT(checks[0].findings, IsEmpty());
  EXPECT_EQ(FigureOf(checks[0], "tokens"), 12);
  EXPECT_GT(FigureOf(checks[0], "compared"), 11);
  EXPECT_LE(FigureOf(checks[0], "largest_difference"), kExactTolerance);
  EXPECT_EQ(checks[1].name, "forward default");
  EXPECT_NE(checks[1].state, CheckState::kFailed) << checks[1].text;
  // The precisions differ.
  EXPECT_GT(FigureOf(checks[1], "largest_difference"),
            FigureOf(checks[0], "largest_difference"));
  EXPECT_EQ(checks[2].name, "sanity");
  EXPECT_EQ(checks[2].state, CheckState::kNote) << checks[2].text;
  EXPECT_THAT(checks[2].text, HasSubstr("looks random or damaged"));
  EXPECT_EQ(FigureOf(checks[2], "uniform_perplexity"), 323);
  EXPECT_THAT(told.back(), AllOf(HasSubstr("12 tokens, reference kernels"),
                                 HasSubstr("--no-forward")));
}

TEST(CheckForwardTest, LogitsThatAreNotFiniteFail) {
  const std::vector<Check> checks = ForwardOf(
      "llama_f32", {.spoil = [](const std::string& tensor, auto& bytes) {
        if (tensor != "output_norm.weight") return;
        const float nan = std::numeric_limits<float>::quiet_NaN();
        std::memcpy(bytes.data(), &nan, sizeof(nan));
      }});
  EXPECT_EQ(checks[2].state, CheckState::kFailed);
  EXPECT_THAT(checks[2].text, HasSubstr("non-finite"));
  EXPECT_EQ(checks[0].state, CheckState::kNote);
  EXPECT_EQ(checks[0].text, "left out: see sanity");
}

TEST(CheckForwardTest, LogitsThatAreAllEqualFail) {
  const std::vector<Check> checks = ForwardOf(
      "llama_f32", {.spoil = [](const std::string& tensor, auto& bytes) {
        if (tensor != "token_embd.weight") return;
        std::fill(bytes.begin(), bytes.end(), std::byte{0});
      }});
  EXPECT_EQ(checks[2].state, CheckState::kFailed);
  EXPECT_THAT(checks[2].text, HasSubstr("all logits are equal"));
}

TEST(CheckForwardTest, AnArchitectureThatCannotRunIsLeftOut) {
  const TemporaryFile other(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const auto with_vocab = worker::ModelFile::Open(other.path());
  ASSERT_TRUE(with_vocab.ok()) << with_vocab.status();
  const auto tokenizer =
      worker::LoadTokenizer((*with_vocab)->header(), **with_vocab);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string built = planner::PlannedOnlyBuilder().Build();
  std::vector<std::byte> bytes(built.size());
  std::memcpy(bytes.data(), built.data(), built.size());
  const TemporaryFile on_disk(bytes);
  const auto file = worker::ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto checks =
      CheckForward(**file, **tokenizer, 1, [](const std::string&) {});
  ASSERT_TRUE(checks.ok()) << checks.status();
  ASSERT_THAT(*checks, SizeIs(3));
  for (const Check& check : *checks) {
    EXPECT_EQ(check.state, CheckState::kNote);
    EXPECT_THAT(check.text, AllOf(HasSubstr("left out: architecture"),
                                  HasSubstr("not run by this build")));
  }
}

TEST(CheckForwardTest, ADifferenceBeyondItsToleranceCounts) {
  PassDifference difference{
      .n_compared = 20, .largest = kExactTolerance, .same_greedy = true};
  EXPECT_EQ(JudgeExact(difference, 12).state, CheckState::kOk);
  difference.largest = kExactTolerance * 1.001;
  EXPECT_EQ(JudgeExact(difference, 12).state, CheckState::kFailed);
  EXPECT_EQ(JudgeDefault(difference, 12).state, CheckState::kOk);
  difference.largest = kDefaultTolerance * 1.001;
  EXPECT_EQ(JudgeDefault(difference, 12).state, CheckState::kNote);
  EXPECT_THAT(JudgeDefault(difference, 12).findings,
              ElementsAre("the difference is beyond 0.3"));
  difference.largest = std::nan("");
  EXPECT_EQ(JudgeExact(difference, 12).state, CheckState::kFailed);
  difference = {.n_compared = 20, .largest = 0, .same_greedy = false};
  EXPECT_EQ(JudgeExact(difference, 12).state, CheckState::kNote);
  EXPECT_THAT(JudgeExact(difference, 12).text,
              HasSubstr("greedy tokens differ"));
}

PassResult ResultOf(float logprob, float best) {
  return {.logprobs = std::vector<float>(9, logprob),
          .candidates = {{.id = 1, .logprob = best}}};
}

TEST(CheckForwardTest, TheMiddleBetweenCertaintyAndAGuessPartsTheTrained) {
  // The middle is a perplexity of 100.
  const Check trained = JudgeSanity(ResultOf(-4.60f, -1), 10'000);
  EXPECT_EQ(trained.state, CheckState::kOk);
  EXPECT_THAT(trained.text, AllOf(HasSubstr("looks trained: perplexity 99.48"),
                                  HasSubstr("9 tokens"), HasSubstr("10,000")));
  const Check random = JudgeSanity(ResultOf(-4.61f, -1), 10'000);
  EXPECT_EQ(random.state, CheckState::kNote);
  EXPECT_THAT(random.text, HasSubstr("looks random or damaged"));
  const Check equal =
      JudgeSanity(ResultOf(-std::log(10'000.0f), -std::log(10'000.0f)), 10'000);
  EXPECT_EQ(equal.state, CheckState::kFailed);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(JudgeSanity(ResultOf(nan, -1), 10'000).state, CheckState::kFailed);
  EXPECT_EQ(JudgeSanity(ResultOf(-1, nan), 10'000).state, CheckState::kFailed);
  EXPECT_EQ(JudgeSanity({}, 10'000).state, CheckState::kFailed);
}

// A model of one matrix that every row multiplies.
planner::ModelShape ShapeOf(int64_t rows, planner::WeightKind kind) {
  planner::ModelShape shape = {};
  shape.tied_output = true;
  shape.n_experts_used = 2;
  shape.weights.push_back({.name = "w",
                           .dtype = DType::kF32,
                           .cols = 1'000'000,
                           .rows = rows,
                           .is_vector = false,
                           .file_offset = 0,
                           .file_bytes = 0,
                           .kind = kind});
  return shape;
}

TEST(CheckForwardTest, ALargeModelComputesFewerTokens) {
  using planner::WeightKind;
  EXPECT_EQ(PassTokens(ShapeOf(135, WeightKind::kDense)), kMostPassTokens);
  const int64_t some = PassTokens(ShapeOf(7'000, WeightKind::kDense));
  EXPECT_LT(some, kMostPassTokens);
  EXPECT_GT(some, kLeastPassTokens);
  EXPECT_EQ(PassTokens(ShapeOf(400'000, WeightKind::kDense)), kLeastPassTokens);
}

TEST(CheckForwardTest, TheEstimateCountsWhatARowReads) {
  using planner::WeightKind;
  const auto time = [](WeightKind kind, int64_t n_tokens) {
    return ReferenceTime(ShapeOf(100, kind), n_tokens);
  };
  EXPECT_GT(time(WeightKind::kDense, 12), time(WeightKind::kDense, 3));
  EXPECT_EQ(time(WeightKind::kEmbedding, 3), time(WeightKind::kDense, 3));
  EXPECT_EQ(time(WeightKind::kPerLayerEmbedding, 3), absl::ZeroDuration());
  // Two experts of each row are decoded again for each row.
  EXPECT_GT(time(WeightKind::kExpert, 12), 2 * time(WeightKind::kDense, 12));
}

}  // namespace
}  // namespace plimsoll::cli
