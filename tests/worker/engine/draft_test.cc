// What an engine promises of guessed tokens: the same bits, fewer steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/regex_grammar.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::SameBits;
using ::testing::HasSubstr;

using Ids = std::vector<int32_t>;

// A few tokens over and over, with other ones between.
Ids Repeating(int64_t n) {
  Ids ids;
  for (int64_t i = 0; i < n; ++i) {
    ids.push_back(
        static_cast<int32_t>(i % 11 == 10 ? 20 + i / 11 : 30 + i % 11));
  }
  return ids;
}

class DraftTest : public plimsoll::testing::EngineFixture {
 protected:
  // What one request gives without guesses and with them.
  struct Both {
    Generated plain;
    Generated guessed;
  };
  Both Run(GenerateOptions request, int64_t draft_tokens) {
    request.draft_tokens = 0;
    Both both = {.plain = Generate(*engine_, request), .guessed = {}};
    request.draft_tokens = draft_tokens;
    both.guessed = Generate(*engine_, request);
    EXPECT_TRUE(both.plain.status.ok()) << both.plain.status;
    EXPECT_TRUE(SameBits(both.plain, both.guessed));
    EXPECT_EQ(both.plain.text, both.guessed.text);
    EXPECT_EQ(both.plain.info.reason, both.guessed.info.reason);
    EXPECT_EQ(both.plain.info.n_drafted, 0);
    return both;
  }
};

class DraftFamilyTest : public DraftTest,
                        public ::testing::WithParamInterface<ModelAndKv> {};

// The windows of the random gemma models are 16 tokens: 15 guesses that are
// wrong would leave nothing of a ring that they were written to.
TEST_P(DraftFamilyTest, GuessesChangeNoBit) {
  Load(GetParam().model, {.n_ctx = 320,
                          .n_draft = 15,
                          .kv_type = GetParam().kv_type,
                          .precision = Precision::kDefault});
  int64_t n_drafted = 0;
  int64_t n_accepted = 0;
  for (const int64_t draft_tokens : {1, 2, 5, 15}) {
    for (const int64_t n_prompt : {30, 63, 128}) {
      SCOPED_TRACE(absl::StrCat(draft_tokens, " of ", n_prompt));
      GenerateOptions request = Greedy(Repeating(n_prompt), 150);
      const FinishInfo greedy = Run(request, draft_tokens).guessed.info;
      request.sampling = {.temperature = 2, .seed = 5};
      request.logit_bias.repetition_penalty = 0.8f;
      const FinishInfo drawn = Run(request, draft_tokens).guessed.info;
      n_drafted += greedy.n_drafted + drawn.n_drafted;
      n_accepted += greedy.n_accepted + drawn.n_accepted;
    }
  }
  EXPECT_GT(n_accepted, 0);
  EXPECT_GT(n_drafted, n_accepted) << "some were wrong";
}

TEST_P(DraftFamilyTest, GuessesStopWhereAContextRolls) {
  Load(GetParam().model,
       {.n_ctx = 256, .n_draft = 7, .kv_type = GetParam().kv_type});
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    GenerateOptions request = GreedyWithTop(Repeating(100), 700, 0);
    request.roll.policy = ContextPolicy::kRoll;
    request.roll.method = method;
    request.roll.pin_tokens = 70;
    const Both both = Run(request, 7);
    ASSERT_EQ(both.guessed.evictions.size(), both.plain.evictions.size());
    EXPECT_GT(both.guessed.evictions.size(), 3u);
    for (size_t i = 0; i < both.plain.evictions.size(); ++i) {
      EXPECT_EQ(both.guessed.evictions[i].position,
                both.plain.evictions[i].position);
      EXPECT_EQ(both.guessed.evictions[i].n_tokens,
                both.plain.evictions[i].n_tokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DraftFamilyTest,
    ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                      ModelAndKv{"llama_q4_1", DType::kQ8_0},
                      ModelAndKv{"gemma_q5_0", DType::kF16},
                      ModelAndKv{"gemma_k", DType::kBF16},
                      ModelAndKv{"deepseek2_q8_0", DType::kQ8_0},
                      ModelAndKv{"lfm2_q8_0", DType::kF16},
                      ModelAndKv{"granitehybrid_q8_0", DType::kF16},
                      ModelAndKv{"nemotron_h_q8_0", DType::kF16}),
    NameOfModelAndKv);

// A random delta net repeats nothing by itself.
TEST_F(DraftTest, RightGuessesSaveSteps) {
  // The constraint leaves one text, whatever the model thinks.
  auto grammar = CompileRegex("(ab cd ){40}");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  GenerateOptions request = Greedy({10, 20, 30}, 200);
  request.ignore_eos = false;
  request.constraint = *grammar;
  for (const char* model : {"gemma_k", "qwen35_q8_0", "qwen3next_q8_0"}) {
    SCOPED_TRACE(model);
    Load(model, {.n_ctx = 320, .n_draft = 7});
    const int64_t before = engine_->CurrentLoad().steps;
    const Both both = Run(request, 7);
    const auto n_tokens = static_cast<int64_t>(both.plain.tokens.size());
    EXPECT_GT(n_tokens, 40);
    EXPECT_GT(both.guessed.info.n_accepted, n_tokens / 3);
    const EngineLoad load = engine_->CurrentLoad();
    EXPECT_EQ(load.draft_tokens, both.guessed.info.n_drafted);
    EXPECT_EQ(load.accepted_draft_tokens, both.guessed.info.n_accepted);
    EXPECT_EQ(load.generated_tokens, 2 * n_tokens);
    EXPECT_EQ(load.steps - before, 2 * n_tokens - both.guessed.info.n_accepted);
  }
}

TEST_F(DraftTest, AContextIsFilledToItsLastToken) {
  Load("llama_f32", {.n_ctx = 128, .n_slots = 2, .n_draft = 15});
  const Both both = Run(Greedy(Repeating(100), 0), 15);
  EXPECT_EQ(both.guessed.info.reason, FinishReason::kLength);
  EXPECT_EQ(both.guessed.tokens.size(), 29u);
  EXPECT_EQ(Generate(*engine_, Greedy(Repeating(128), 5)).tokens.size(), 1u);
}

TEST_F(DraftTest, MaxTokensAndStopsEndAmongGuesses) {
  Load("llama_f32", {.n_ctx = 320, .n_draft = 7});
  const Generated all = Generate(*engine_, Greedy(Repeating(100), 60));
  for (const size_t end : {1u, 2u, 3u, 20u, 41u}) {
    SCOPED_TRACE(end);
    GenerateOptions request = Greedy(Repeating(100), static_cast<int64_t>(end));
    EXPECT_EQ(Run(request, 7).guessed.tokens.size(), end);
    request.max_tokens = 60;
    request.stop_tokens = {all.tokens[end].id};
    EXPECT_EQ(Run(request, 7).guessed.info.reason, FinishReason::kStopToken);
  }
}

TEST_F(DraftTest, ASessionGoesOnAfterGuesses) {
  Load("gemma_q5_0", {.n_ctx = 320, .n_slots = 3, .n_draft = 7});
  SessionOptions session;
  session.frame = {.opening = {2, 5}, .after_user = {6}, .after_reply = {7, 8}};
  std::vector<Generated> replies[2];
  for (const int64_t draft_tokens : {0, 7}) {
    session.id = absl::StrCat("s", draft_tokens);
    ASSERT_TRUE(engine_->OpenSession(session).ok());
    for (int turn = 0; turn < 8; ++turn) {
      GenerateOptions message = Greedy(Repeating(33), 40);
      message.session_id = session.id;
      message.draft_tokens = draft_tokens;
      replies[draft_tokens / 7].push_back(Generate(*engine_, message));
    }
  }
  int64_t n_accepted = 0;
  for (size_t turn = 0; turn < 8; ++turn) {
    EXPECT_TRUE(SameBits(replies[0][turn], replies[1][turn])) << turn;
    n_accepted += replies[1][turn].info.n_accepted;
  }
  EXPECT_GT(replies[1].back().info.n_evicted + replies[1][6].info.n_evicted, 0);
  EXPECT_GT(n_accepted, 0);
}

TEST_F(DraftTest, AsManyAsTheLoadAllowsAndNoMore) {
  Load("llama_f32", {.n_ctx = 128, .n_draft = 3});
  GenerateOptions request = Greedy({10, 20}, 3);
  request.draft_tokens = 3;
  EXPECT_TRUE(Generate(*engine_, request).status.ok());
  request.draft_tokens = 4;
  const absl::Status refused = Generate(*engine_, request).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("draft_tokens is 4, the model was loaded for 3"));
  request.draft_tokens = -1;
  EXPECT_EQ(Generate(*engine_, request).status.code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::worker
