// What engines of models in several parts are asked for, beside the same models
// in one.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_SPLIT_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_SPLIT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/session_fixture.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/regex_grammar.h"

namespace plimsoll::worker {

using Cuts = std::vector<int64_t>;

// Every place for one cut, and all of them at once.
inline std::vector<Cuts> CutsOf(int64_t n_layers) {
  std::vector<Cuts> all;
  Cuts each;
  for (int64_t cut = 1; cut < n_layers; ++cut) {
    all.push_back({cut});
    each.push_back(cut);
  }
  all.push_back(each);
  return all;
}

inline plimsoll::testing::EngineSetup SplitAt(Cuts cuts) {
  return {.n_ctx = 192,
          .n_slots = 3,
          .n_ubatch = 50,
          .n_idle_sessions = 4,
          .n_draft = 5,
          .kv_type = DType::kF16,
          .precision = Precision::kDefault,
          .devices = {&LocalCpu()},
          .cuts = std::move(cuts)};
}

// Something of all that an engine does.
inline std::vector<GenerateOptions> Requests() {
  using ::plimsoll::testing::Greedy;
  using ::plimsoll::testing::GreedyWithTop;
  using ::plimsoll::testing::RandomIds;
  std::vector<GenerateOptions> requests;
  const Ids prompt = RandomIds(130, 3);
  requests.push_back(Greedy(prompt, 40));
  requests.push_back(Greedy(prompt, 10));  // shares the first one's pages
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    requests.push_back(Greedy(RandomIds(188, 5), 120));
    requests.back().roll.policy = ContextPolicy::kRoll;
    requests.back().roll.method = method;
  }
  requests.push_back(Greedy(plimsoll::testing::RepeatingPrompt(40), 140));
  requests.back().draft_tokens = 5;
  requests.back().logit_bias.repetition_penalty = 0.2f;  // it goes on so
  requests.push_back(Greedy(RandomIds(30, 2), 3));
  requests.back().prompt_logprobs = true;
  requests.push_back(GreedyWithTop(RandomIds(20, 8), 30, 5));
  requests.back().sampling = {.temperature = 0.9f, .top_k = 0, .seed = 4};
  requests.back().logit_bias.repetition_penalty = 1.3f;
  requests.push_back(GreedyWithTop(RandomIds(10, 9), 12, -1));
  requests.back().ignore_eos = false;
  requests.back().constraint = *CompileRegex("[a-z]{3,6}");
  return requests;
}

// A chat that rolls, and what it holds of the cache.
inline std::vector<plimsoll::testing::Generated> ChatWith(
    Engine& engine, int64_t& reserved_bytes) {
  EXPECT_TRUE(engine.OpenSession(Chat("chat")).ok());
  std::vector<plimsoll::testing::Generated> replies;
  for (uint32_t seed = 0; seed < 5; ++seed) {
    replies.push_back(plimsoll::testing::Generate(
        engine, Message("chat", plimsoll::testing::RandomIds(30, seed), 25)));
    EXPECT_TRUE(replies.back().status.ok()) << replies.back().status;
  }
  const auto info = engine.GetSession("chat", "");
  EXPECT_TRUE(info.ok());
  EXPECT_GT(info->n_evictions, 0);
  reserved_bytes = info->reserved_bytes;
  EXPECT_TRUE(engine.CloseSession("chat", "").ok());
  return replies;
}

inline void ExpectSame(const std::vector<plimsoll::testing::Generated>& whole,
                       const std::vector<plimsoll::testing::Generated>& split) {
  ASSERT_EQ(whole.size(), split.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(plimsoll::testing::SameBits(whole[i], split[i]));
    EXPECT_EQ(whole[i].prompt_logprobs, split[i].prompt_logprobs);
    EXPECT_EQ(whole[i].evictions.size(), split[i].evictions.size());
    EXPECT_EQ(whole[i].info.n_cached, split[i].info.n_cached);
    EXPECT_EQ(whole[i].info.n_accepted, split[i].info.n_accepted);
  }
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_SPLIT_FIXTURE_H_
