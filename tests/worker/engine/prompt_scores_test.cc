// Log-probabilities of prompts: the same bits as where the tokens are
// generated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kRandomVocab;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;

GenerateOptions Scored(std::vector<int32_t> prompt) {
  GenerateOptions options = Greedy(std::move(prompt), 1);
  options.prompt_logprobs = true;
  return options;
}

class PromptScoresTest : public plimsoll::testing::EngineFixture,
                         public ::testing::WithParamInterface<const char*> {
 protected:
  void Load(const EngineSetup& setup) {
    EngineFixture::Load(GetParam(), setup);
  }
};

INSTANTIATE_TEST_SUITE_P(All, PromptScoresTest,
                         ::testing::Values("llama_half", "gemma_q5_0",
                                           "lfm2_q8_0", "qwen3next_q8_0"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST_P(PromptScoresTest, AreTheBitsThatTheTokensHadWhenGenerated) {
  Load({.precision = Precision::kDefault});
  const std::vector<int32_t> prompt = RandomIds(40, 1);
  const Generated free = Generate(*engine_, Greedy(prompt, 60));
  std::vector<int32_t> all = prompt;
  for (const int32_t id : free.ids()) all.push_back(id);
  const Generated scored = Generate(*engine_, Scored(all));
  ASSERT_TRUE(scored.status.ok()) << scored.status;
  ASSERT_EQ(scored.prompt_logprobs.size(), 99u);
  for (size_t i = 0; i < 60; ++i) {
    ASSERT_EQ(scored.prompt_logprobs[39 + i], free.tokens[i].logprob) << i;
    EXPECT_TRUE(scored.prompt_is_best[39 + i]) << i;
  }
  for (const float logprob : scored.prompt_logprobs) EXPECT_LE(logprob, 0);
  // A random prompt is not what the model would have said.
  EXPECT_FALSE(std::all_of(scored.prompt_is_best.begin(),
                           scored.prompt_is_best.begin() + 39,
                           [](bool is_best) { return is_best; }));
}

TEST_P(PromptScoresTest, ComeOnlyWhereAskedAndChangeNothingElse) {
  Load({.n_threads = 1});
  GenerateOptions options = Scored(RandomIds(100, 2));
  options.max_tokens = 20;
  const Generated scored = Generate(*engine_, options);
  EXPECT_EQ(scored.prompt_logprobs.size(), 99u);
  options.prompt_logprobs = false;
  const Generated plain = Generate(*engine_, options);
  EXPECT_TRUE(plain.prompt_logprobs.empty());
  EXPECT_TRUE(SameBits(scored, plain));
  EXPECT_TRUE(Generate(*engine_, Scored({5})).prompt_logprobs.empty());
  // From some token on.
  for (const int64_t first : {int64_t{1}, int64_t{50}, int64_t{99}}) {
    options.prompt_logprobs = true;
    options.first_scored = first;
    const Generated tail = Generate(*engine_, options);
    EXPECT_EQ(tail.prompt_logprobs,
              std::vector<float>(scored.prompt_logprobs.begin() + first - 1,
                                 scored.prompt_logprobs.end()));
  }
  options.first_scored = 100;
  EXPECT_TRUE(Generate(*engine_, options).prompt_logprobs.empty());
  options.first_scored = 0;
  EXPECT_EQ(Generate(*engine_, options).status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(PromptScoresTest, DoNotDependOnChunksOrCompany) {
  const std::vector<int32_t> prompt = RandomIds(150, 3);
  Load({.n_threads = 1});
  const Generated alone = Generate(*engine_, Scored(prompt));
  const Generated neighbour = Generate(*engine_, Greedy(RandomIds(9, 4), 50));
  for (const int64_t n_ubatch : {1, 7, 16, 64}) {
    SCOPED_TRACE(n_ubatch);
    Load({.n_slots = 3, .n_ubatch = n_ubatch, .n_threads = 1});
    std::vector<std::shared_ptr<CollectSink>> sinks;
    for (int i = 0; i < 3; ++i)
      sinks.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(engine_->Submit(Scored(prompt), sinks[0]).ok());
    ASSERT_TRUE(engine_->Submit(Greedy(RandomIds(9, 4), 50), sinks[1]).ok());
    ASSERT_TRUE(engine_->Submit(Scored(prompt), sinks[2]).ok());
    EXPECT_EQ(sinks[0]->Await().prompt_logprobs, alone.prompt_logprobs);
    EXPECT_TRUE(SameBits(sinks[1]->Await(), neighbour));
    EXPECT_EQ(sinks[2]->Await().prompt_logprobs, alone.prompt_logprobs);
  }
}

TEST_P(PromptScoresTest, ScoreEveryTokenOnceWhereTheContextRolls) {
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    GenerateOptions options = Scored(RandomIds(1'000, 5));
    options.roll.policy = ContextPolicy::kRoll;
    options.roll.method = method;
    Load({.n_ctx = 256, .n_threads = 1});
    const Generated whole = Generate(*engine_, options);
    ASSERT_EQ(whole.prompt_logprobs.size(), 999u);
    EXPECT_GT(whole.info.n_evictions, 10);
    Load({.n_ctx = 256, .n_ubatch = 7, .n_threads = 2});
    EXPECT_EQ(Generate(*engine_, options).prompt_logprobs,
              whole.prompt_logprobs);
    // Before the first eviction nothing differs from a context that does not
    // roll, but for the order of sums.
    options.prompt_ids.resize(190);
    options.roll.policy = ContextPolicy::kStop;
    const Generated stopped = Generate(*engine_, options);
    for (size_t i = 0; i < 189; ++i) {
      ASSERT_NEAR(stopped.prompt_logprobs[i], whole.prompt_logprobs[i], 1e-4);
    }
  }
}

TEST_P(PromptScoresTest, DamagedWeightsEndTheStreamAlone) {
  const TemporaryFile file(SpoiledModelBytes(
      FindRandomModel("llama_half"), [](const std::string& name, auto& bytes) {
        if (name != "token_embd.weight") return;
        const size_t row = bytes.size() / kRandomVocab;
        std::memset(bytes.data() + 77 * row, 0xff, row);
      }));
  auto engine = LoadEngine(file.path(), {.n_slots = 2});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const Generated damaged =
      Generate(**engine, Scored({10, 20, 77, 30, 40, 50}));
  EXPECT_EQ(damaged.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Generate(**engine, Scored({10, 20, 30})).prompt_logprobs.size(),
            2u);
}

}  // namespace
}  // namespace plimsoll::worker
