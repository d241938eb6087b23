// What an engine promises to streams whose reasoning has a limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sanitized.h"
#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/regex_grammar.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::ExpectMixesChangeNothing;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kPrompt;
using ::plimsoll::testing::SameBits;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Ids = std::vector<int32_t>;

class ReasoningTest : public plimsoll::testing::EngineFixture,
                      public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Load(GetParam(), {.n_slots = 3, .n_draft = 4});
    limit_ = LimitReasoning({.format = FindReplyFormat(R"('</think>\n\n')"),
                             .begins_reasoning = true},
                            /*max_tokens=*/0, engine_->tokenizer());
    ASSERT_TRUE(limit_.has_value());
  }

  // `options` in a reply that begins inside of reasoning.
  GenerateOptions Limited(int64_t max_tokens, GenerateOptions options) const {
    options.reasoning = limit_;
    options.reasoning->max_tokens = max_tokens;
    return options;
  }

  const Ids& End() const { return limit_->end; }

  std::optional<ReasoningLimit> limit_;
};

INSTANTIATE_TEST_SUITE_P(Models, ReasoningTest,
                         ::testing::Values("llama_half", "gemma_k"));

TEST_P(ReasoningTest, TheEndComesAfterSoManyTokens) {
  const GenerateOptions request = Greedy(kPrompt, 40);
  const Ids free = Generate(*engine_, request).ids();
  for (const int64_t n : {0, 1, 7}) {
    const Generated got = Generate(*engine_, Limited(n, request));
    ASSERT_TRUE(got.status.ok()) << got.status;
    const Ids ids = got.ids();
    Ids expected(free.begin(), free.begin() + n);
    expected.insert(expected.end(), End().begin(), End().end());
    ASSERT_GE(ids.size(), expected.size());
    EXPECT_EQ(Ids(ids.begin(), ids.begin() + std::ssize(expected)), expected);
    EXPECT_EQ(got.info.n_generated, 40) << "forced tokens count";
    EXPECT_THAT(got.text, HasSubstr("</think>\n\n"));
  }
}

TEST_P(ReasoningTest, AReplyThatDoesNotReasonIsTheSame) {
  const GenerateOptions request = Greedy(kPrompt, 40);
  GenerateOptions limited = Limited(0, request);
  limited.reasoning->reading.begins_reasoning = false;
  EXPECT_TRUE(
      SameBits(Generate(*engine_, limited), Generate(*engine_, request)));
  EXPECT_TRUE(SameBits(Generate(*engine_, Limited(40, request)),
                       Generate(*engine_, request)))
      << "the limit is not reached";
}

TEST_P(ReasoningTest, ForcedTokensHaveTheModelsLogprobs) {
  const Generated got = Generate(
      *engine_, Limited(3, GreedyWithTop(kPrompt, 20, /*top_logprobs=*/0)));
  GenerateOptions score = Greedy(kPrompt, 1);
  const Ids ids = got.ids();
  score.prompt_ids.insert(score.prompt_ids.end(), ids.begin(), ids.end());
  score.prompt_logprobs = true;
  score.first_scored = std::ssize(kPrompt);
  const Generated scored = Generate(*engine_, score);
  ASSERT_EQ(scored.prompt_logprobs.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(got.tokens[i].has_logprob);
    EXPECT_NEAR(got.tokens[i].logprob, scored.prompt_logprobs[i], 1e-4) << i;
  }
}

TEST_P(ReasoningTest, MixesChangeNoBit) {
  std::vector<GenerateOptions> requests;
  for (const int64_t n : {0, 1, 5, 30}) {
    requests.push_back(Limited(n, GreedyWithTop(kPrompt, 60, 3)));
    GenerateOptions drawn = Limited(n, GreedyWithTop({7, 8, 9, 7, 8}, 60, 3));
    drawn.sampling = {.temperature = 1.5f, .seed = 3};
    drawn.logit_bias.repetition_penalty = 1.2f;
    requests.push_back(drawn);
    GenerateOptions rolling = Limited(200 + n, GreedyWithTop(kPrompt, 600, 3));
    rolling.roll.policy = ContextPolicy::kRoll;
    requests.push_back(rolling);
    requests.push_back(GreedyWithTop({40, 41, 42, 40, 41}, 60, 3));
  }
  const auto alone = EachAlone(*engine_, requests);
  const int n_mixes = plimsoll::testing::kIsSanitized ? 3 : 12;
  ExpectMixesChangeNothing(*engine_, requests, alone, n_mixes, /*seed=*/5);
}

TEST_P(ReasoningTest, GuessesMayBeForcedTokens) {
  // The prompt has what is forced after the same tokens.
  GenerateOptions request = Limited(2, Greedy(kPrompt, 30));
  const Ids ids = Generate(*engine_, request).ids();
  request.prompt_ids.insert(request.prompt_ids.end(), ids.begin(), ids.end());
  request.prompt_ids.insert(request.prompt_ids.end(), kPrompt.begin(),
                            kPrompt.end());
  const Generated plain = Generate(*engine_, request);
  request.draft_tokens = 4;
  const Generated guessed = Generate(*engine_, request);
  EXPECT_TRUE(SameBits(plain, guessed));
  EXPECT_GT(guessed.info.n_accepted, 0);
}

TEST_P(ReasoningTest, MaxTokensMayCutTheEnd) {
  ASSERT_GT(End().size(), 1u);
  const Generated got = Generate(*engine_, Limited(3, Greedy(kPrompt, 4)));
  EXPECT_EQ(got.info.n_generated, 4);
  EXPECT_EQ(got.info.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(got.ids().back(), End().front());
}

// A constraint that begins behind the reasoning allows no line breaks there.
TEST_P(ReasoningTest, AConstraintBeginsBehindIt) {
  GenerateOptions request = Limited(4, Greedy(kPrompt, 60));
  request.ignore_eos = false;
  request.constraint = *CompileRegex("[ab]{3}", NeverStop, "</think>");
  const Generated got = Generate(*engine_, request);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.info.reason, FinishReason::kEndToken);
  EXPECT_THAT(got.text, ContainsRegex("</think>[ab][ab][ab]$"));
}

TEST_P(ReasoningTest, AConstraintOfTheWholeReplyComesFirst) {
  GenerateOptions request = Greedy(kPrompt, 60);
  request.ignore_eos = false;
  request.constraint = *CompileRegex("[ab]{9}");
  const Generated free = Generate(*engine_, request);
  ASSERT_TRUE(free.status.ok()) << free.status;
  EXPECT_TRUE(SameBits(Generate(*engine_, Limited(0, request)), free));
  EXPECT_TRUE(SameBits(Generate(*engine_, Limited(2, request)), free));
}

TEST_P(ReasoningTest, BadLimitsAreRefused) {
  const auto refusal = [this](const GenerateOptions& request) {
    const absl::Status status = Generate(*engine_, request).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  GenerateOptions request = Limited(-1, Greedy(kPrompt, 2));
  EXPECT_THAT(refusal(request), StartsWith("reasoning.max_tokens"));
  request = Limited(0, Greedy(kPrompt, 2));
  const int32_t n = engine_->tokenizer().vocab_size();
  request.reasoning->end = {n - 1};
  EXPECT_TRUE(Generate(*engine_, request).status.ok());
  for (const int32_t id : {-1, n}) {
    request.reasoning->end = {id};
    EXPECT_THAT(refusal(request), StartsWith("reasoning.end: "));
  }
  request.reasoning->end.clear();
  EXPECT_THAT(refusal(request), StartsWith("reasoning.end: "));
}

}  // namespace
}  // namespace plimsoll::worker
