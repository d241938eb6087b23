// The real models' tokens where few logits are looked at, so that most are
// never computed: those that come where all of them are.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/golden/real_models.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::Exists;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kGemma;
using ::plimsoll::testing::kSmolLm;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::ModelPath;
using ::plimsoll::testing::NameOfModel;

struct Case {
  const char* name;
  SamplingOptions sampling;
  LogitBiasOptions logit_bias;
  int64_t draft_tokens;
};

SamplingOptions Drawn(SamplingOptions options) {
  options.temperature = 0.8f;
  options.top_p = 1.0f;
  options.seed = 5;
  return options;
}

std::vector<Case> Cases() {
  constexpr SamplingOptions kGreedy = {.temperature = 0};
  LogitBiasOptions biases;
  biases.biases = {{100, 30.0f}, {7'000, 5.0f}, {20'000, -5.0f}};
  LogitBiasOptions penalties = biases;
  penalties.repetition_penalty = 1.3f;
  penalties.frequency_penalty = 0.5f;
  return {
      {"greedy", kGreedy, {}, 0},
      {"greedy with guesses", kGreedy, {}, 3},
      {"the default chain", {.seed = 3}, {}, 0},
      {"as many candidates as there may be", Drawn({.top_k = 64}), {}, 0},
      {"one more, of the whole row", Drawn({.top_k = 65}), {}, 0},
      {"min_p, that leaves few", Drawn({.top_k = 0, .min_p = 0.1f}), {}, 0},
      {"min_p, that leaves more than candidates",
       Drawn({.top_k = 0, .min_p = 1e-6f}),
       {},
       0},
      {"min_p with guesses", Drawn({.top_k = 0, .min_p = 1e-4f}), {}, 3},
      {"the whole row", Drawn({.top_k = 0, .min_p = 0.0f}), {}, 0},
      {"biases", kGreedy, biases, 0},
      {"penalties", Drawn({.top_k = 10}), penalties, 0},
      {"penalties with guesses", kGreedy, penalties, 1},
  };
}

class FewLogitsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FewLogitsTest, TokensAreThoseOfWholeRows) {
  if (!Exists(ModelPath(GetParam()))) {
    GTEST_SKIP() << "the model " << GetParam() << " is not in the cache";
  }
  auto engine = LoadEngine(
      ModelPath(GetParam()),
      {.n_ctx = 256, .n_draft = 3, .precision = Precision::kDefault});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto prompt = (*engine)->tokenizer().Encode(
      "one two three four one two three four one two", ParseSpecial::kNo);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    GenerateOptions request = GreedyWithTop(*prompt, 24, /*top_logprobs=*/-1);
    request.sampling = c.sampling;
    request.logit_bias = c.logit_bias;
    request.draft_tokens = c.draft_tokens;
    const Generated few = Generate(**engine, request);
    request.top_logprobs = 0;
    const Generated all = Generate(**engine, request);
    ASSERT_TRUE(few.status.ok()) << few.status;
    EXPECT_EQ(few.ids(), all.ids());
    EXPECT_EQ(few.ids().size(), 24u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, FewLogitsTest,
    ::testing::ValuesIn(plimsoll::testing::RealModelsOfLongTests()),
    NameOfModel);

}  // namespace
}  // namespace plimsoll::worker
