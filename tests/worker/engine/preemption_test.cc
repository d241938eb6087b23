// What an engine promises where its pool of pages is smaller than all slots
// together: no lost or repeated token, not a bit changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::Sinks;

class PreemptionTest : public plimsoll::testing::EngineFixture {
 protected:
  // All at once: nobody goes on after a token before the last one is there.
  Sinks SubmitTogether(const std::vector<GenerateOptions>& requests) {
    Sinks sinks;
    for (const GenerateOptions& request : requests) {
      sinks.push_back(std::make_shared<CollectSink>(/*limit=*/1));
      EXPECT_TRUE(engine_->Submit(request, sinks.back()).ok());
    }
    for (const auto& sink : sinks) sink->Accept();
    engine_->Wake();
    return sinks;
  }
};

class PreemptionFamilyTest : public PreemptionTest,
                             public ::testing::WithParamInterface<ModelAndKv> {
};

// Four slots of six pages share nine.
TEST_P(PreemptionFamilyTest, WhoBeginsAgainSaysTheSame) {
  EngineSetup setup = {.n_ctx = 384, .kv_type = GetParam().kv_type};
  std::vector<GenerateOptions> requests;
  for (uint32_t i = 0; i < 10; ++i) {
    requests.push_back(GreedyWithTop(RandomIds(20 + 11 * i, i), 180, 3));
    if (i % 3 == 1) {
      requests.back().sampling = {.temperature = 1, .seed = i};
      requests.back().logit_bias.repetition_penalty = 1.3f;
    }
    if (i % 4 == 2) requests.back().prompt_logprobs = true;
    if (i % 5 == 4) {
      requests.back().roll.policy = ContextPolicy::kRoll;
      requests.back().max_tokens = 500;
    }
  }
  Load(GetParam().model, setup);
  const std::vector<Generated> alone = EachAlone(*engine_, requests);
  for (const int64_t prefix_cache_bytes : {int64_t{0}, INT64_MAX}) {
    setup.n_slots = 4;
    setup.n_draft = 3;
    setup.kv_tokens = 9 * 64;
    setup.n_idle_sessions = 2;
    setup.prefix_cache_bytes = prefix_cache_bytes;
    Load(GetParam().model, setup);
    EXPECT_EQ(engine_->CurrentLoad().kv_pages, 9);
    for (size_t i = 0; i < requests.size(); i += 2) {
      requests[i].draft_tokens = 3;
    }
    ExpectAsAlone(SubmitTogether(requests), alone);
    EXPECT_GT(engine_->CurrentLoad().preemptions, 2);
    EXPECT_EQ(engine_->CurrentLoad().running, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PreemptionFamilyTest,
                         ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                                           ModelAndKv{"gemma_k", DType::kQ8_0},
                                           ModelAndKv{"lfm2_q8_0",
                                                      DType::kF16}),
                         NameOfModelAndKv);

TEST_F(PreemptionTest, APoolOfOneContextServesEverybodyInTurn) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 4, .kv_tokens = 1});
  EXPECT_EQ(engine_->CurrentLoad().kv_pages, 4);
  std::vector<GenerateOptions> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(Greedy(RandomIds(1 + 50 * i, i), 0));
  }
  for (const auto& sink : SubmitTogether(requests)) {
    EXPECT_EQ(sink->Await().info.reason, FinishReason::kLength);
  }
}

TEST_F(PreemptionTest, WhoReadsSlowlyBeginsAgainAndLosesNothing) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  const GenerateOptions slow = Greedy(RandomIds(60, 1), 100);
  const GenerateOptions fast = Greedy(RandomIds(60, 2), 190);
  const Generated slow_alone = Generate(*engine_, slow);
  Load("llama_f32", {.n_ctx = 256, .n_slots = 3, .kv_tokens = 5 * 64});
  const auto other = std::make_shared<CollectSink>();
  const auto behind = std::make_shared<CollectSink>(/*limit=*/40);
  ASSERT_TRUE(engine_->Submit(fast, other).ok());
  ASSERT_TRUE(engine_->Submit(slow, behind).ok());
  behind->AwaitRefusal();
  EXPECT_TRUE(other->Await().status.ok());
  behind->Accept();
  engine_->Wake();
  EXPECT_TRUE(SameBits(behind->Await(), slow_alone));
}

TEST_F(PreemptionTest, WhoIsCancelledWhileItWaitsAgainIsGone) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 4, .kv_tokens = 5 * 64});
  std::vector<GenerateOptions> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(Greedy(RandomIds(60, i), 190));
  }
  const Sinks sinks = SubmitTogether(requests);
  for (size_t i = 1; i < 4; ++i) sinks[i]->Abandon();
  EXPECT_TRUE(sinks[0]->Await().status.ok());
  for (const auto& sink : sinks) sink->Await();
  EXPECT_EQ(engine_->CurrentLoad().waiting, 0);
  EXPECT_TRUE(Generate(*engine_, requests[1]).status.ok());
}

TEST_F(PreemptionTest, SessionsAreAsManyAsThereAreWholeContextsLessOne) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 4, .kv_tokens = 3 * 256 - 64});
  EXPECT_EQ(engine_->MaxSessions(), 1);
  Load("llama_f32", {.n_ctx = 256, .n_slots = 4, .kv_tokens = 3 * 256});
  EXPECT_EQ(engine_->MaxSessions(), 2);
  SessionOptions session;
  session.frame = {.opening = {5}, .after_user = {6}, .after_reply = {7}};
  for (const char* id : {"a", "b"}) {
    session.id = id;
    ASSERT_TRUE(engine_->OpenSession(session).ok());
    for (int turn = 0; turn < 4; ++turn) {
      GenerateOptions message = Greedy(RandomIds(70, 3), 30);
      message.session_id = id;
      EXPECT_TRUE(Generate(*engine_, message).status.ok());
    }
  }
  // What is left is a whole context, and two share it.
  const Sinks sinks = SubmitTogether(
      {Greedy(RandomIds(50, 1), 200), Greedy(RandomIds(50, 2), 200)});
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->Await().tokens.size(), 200u);
  }
  EXPECT_GT(engine_->CurrentLoad().preemptions, 0);
}

}  // namespace
}  // namespace plimsoll::worker
