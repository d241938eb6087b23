// What an engine promises where tenants wait for slots that others keep: all of
// them go on, no token is lost or repeated, not a bit changed.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/regex_grammar.h"

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

class SlicesTest : public plimsoll::testing::EngineFixture {};

class SlicesFamilyTest : public SlicesTest,
                         public ::testing::WithParamInterface<ModelAndKv> {};

// Requests of three tenants, with all that a reply keeps between two tokens.
std::vector<GenerateOptions> LongRequests() {
  std::vector<GenerateOptions> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(GreedyWithTop(RandomIds(20 + 11 * i, i), 400, 3));
    requests.back().claim.tenant = absl::StrCat("tenant ", i % 3);
    if (i % 2 == 1) {
      requests.back().sampling = {.temperature = 1, .seed = i};
      requests.back().logit_bias.repetition_penalty = 1.3f;
    }
    if (i == 2) requests.back().stop_strings = {"never said at all"};
    if (i == 4) requests.back().roll.policy = ContextPolicy::kRoll;
  }
  auto grammar = CompileRegex("([a-z]{1,9} ){400}");
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  requests[5].ignore_eos = false;
  requests[5].constraint = *std::move(grammar);
  return requests;
}

TEST_P(SlicesFamilyTest, WhoGivesItsSlotUpSaysTheSame) {
  EngineSetup setup = {.n_ctx = 768, .kv_type = GetParam().kv_type};
  std::vector<GenerateOptions> requests = LongRequests();
  Load(GetParam().model, setup);
  const std::vector<Generated> alone = EachAlone(*engine_, requests);
  requests[0].draft_tokens = 3;
  for (const int64_t n_slots : {1, 2}) {
    setup.n_slots = n_slots;
    setup.n_draft = 3;
    Load(GetParam().model, setup);
    ExpectAsAlone(SubmitAll(requests), alone);
    EXPECT_GT(engine_->CurrentLoad().preemptions, 2);
    EXPECT_EQ(engine_->CurrentLoad().running, 0);
  }
}

// Its keys cannot be computed again, so a copy of them waits with it.
TEST_P(SlicesFamilyTest, AContextThatHasRolledIsParkedAndSaysTheSame) {
  EngineSetup setup = {.n_ctx = 256, .n_parked = 1};
  setup.kv_type = GetParam().kv_type;
  GenerateOptions rolls = GreedyWithTop(RandomIds(60, 1), 1'400, 3);
  rolls.roll.policy = ContextPolicy::kRoll;
  rolls.roll.pin_tokens = 10;
  rolls.sampling = {.temperature = 1, .seed = 5};
  rolls.logit_bias.repetition_penalty = 1.3f;
  rolls.claim.tenant = "rolls";
  Load(GetParam().model, setup);
  const Generated alone = Generate(*engine_, rolls);
  ASSERT_GT(alone.evictions.size(), 4u);
  for (const Eviction& eviction : alone.evictions) {
    ASSERT_EQ(eviction.method, RollMethod::kShift);
  }
  for (const int64_t draft_tokens : {0, 3}) {
    setup.n_draft = draft_tokens;
    rolls.draft_tokens = draft_tokens;
    Load(GetParam().model, setup);
    const auto stream = std::make_shared<CollectSink>();
    std::vector<std::shared_ptr<CollectSink>> others;
    stream->after_output = [&](int64_t n_tokens) {
      if (n_tokens < 400 * (1 + std::ssize(others)) || others.size() == 3) {
        return;
      }
      others.push_back(std::make_shared<CollectSink>());
      EXPECT_TRUE(
          engine_->Submit(Greedy(RandomIds(90, 7), 20), others.back()).ok());
    };
    ASSERT_TRUE(engine_->Submit(rolls, stream).ok());
    const Generated got = stream->Await();
    EXPECT_TRUE(SameBits(got, alone)) << draft_tokens;
    EXPECT_EQ(got.evictions.size(), alone.evictions.size());
    ASSERT_EQ(others.size(), 3u);
    for (const auto& other : others) EXPECT_TRUE(other->Await().status.ok());
    EXPECT_GE(engine_->CurrentLoad().preemptions, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlicesFamilyTest,
                         ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                                           ModelAndKv{"gemma_k", DType::kQ8_0}),
                         NameOfModelAndKv);

TEST_F(SlicesTest, AStreamWithoutAnEndKeepsNoSlotFromOthers) {
  Load("llama_f32", {.n_ctx = 4'096, .n_slots = 1});
  GenerateOptions endless = Greedy(RandomIds(60, 1), 4'000);
  endless.claim.tenant = "endless";
  const auto stream = std::make_shared<CollectSink>();
  std::shared_ptr<CollectSink> others[2];
  for (auto& other : others) other = std::make_shared<CollectSink>();
  stream->after_output = [&](int64_t n_tokens) {
    if (n_tokens != 5) return;
    for (const auto& other : others) {
      EXPECT_TRUE(engine_->Submit(Greedy({7, 8}, 3), other).ok());
    }
  };
  ASSERT_TRUE(engine_->Submit(endless, stream).ok());
  for (const auto& other : others) EXPECT_TRUE(other->Await().status.ok());
  EXPECT_GT(engine_->Requests(9).size(), 0u) << "it has not ended";
  stream->Abandon();
  engine_->Wake();
  EXPECT_EQ(stream->Await().status.code(), absl::StatusCode::kCancelled);
}

// Not even one whose context has rolled, which cannot begin again as it was.
TEST_F(SlicesTest, AStreamThatRollsForEverKeepsNoSlotFromOthers) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  GenerateOptions endless = Greedy(RandomIds(60, 1), 0);
  endless.roll.policy = ContextPolicy::kRoll;
  endless.claim.tenant = "endless";
  const auto stream = std::make_shared<CollectSink>();
  const auto other = std::make_shared<CollectSink>();
  std::atomic<int64_t> n_before{0};
  std::atomic<int64_t> n_said{0};
  other->after_output = [&](int64_t) { n_before = n_said.load(); };
  stream->after_output = [&](int64_t n_tokens) {
    n_said = n_tokens;
    if (n_tokens == 600) {
      EXPECT_TRUE(engine_->Submit(Greedy({7, 8}, 3), other).ok());
    }
    if (n_before > 0 && n_tokens > n_before + 300) stream->Abandon();
  };
  ASSERT_TRUE(engine_->Submit(endless, stream).ok());
  EXPECT_TRUE(other->Await().status.ok());
  const Generated got = stream->Await();
  EXPECT_EQ(got.status.code(), absl::StatusCode::kCancelled);
  EXPECT_GT(n_said, n_before + 300) << "it goes on";
  EXPECT_GT(got.evictions.size(), 2u);
}

// A prompt as long as many contexts keeps no slot from others either.
TEST_F(SlicesTest, APromptThatRollsKeepsNoSlotFromOthers) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1, .n_parked = 1});
  constexpr int64_t kTokens = 60'000;
  GenerateOptions endless = Greedy(RandomIds(kTokens, 1), 1);
  endless.roll.policy = ContextPolicy::kRoll;
  endless.claim.tenant = "endless";
  const auto stream = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(endless, stream).ok());
  while (engine_->CurrentLoad().running == 0) std::this_thread::yield();
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
  EXPECT_LT(engine_->CurrentLoad().prompt_tokens, kTokens / 2);
  EXPECT_EQ(engine_->CurrentLoad().preemptions, 1);
  stream->Abandon();
  engine_->Wake();
  EXPECT_EQ(stream->Await().status.code(), absl::StatusCode::kCancelled);
}

// Two of them and room for one: whoever waits gets a slot all the same, and the
// room is free again when the one that waits there is left.
TEST_F(SlicesTest, RoomForParkedContextsIsSharedAndGivenBack) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 2, .n_parked = 1});
  GenerateOptions endless = Greedy(RandomIds(60, 1), 0);
  endless.roll.policy = ContextPolicy::kRoll;
  std::vector<std::shared_ptr<CollectSink>> streams;
  std::vector<std::shared_ptr<CollectSink>> others;
  for (int i = 0; i < 2; ++i) {
    streams.push_back(std::make_shared<CollectSink>());
    others.push_back(std::make_shared<CollectSink>());
  }
  streams[0]->after_output = [&](int64_t n_tokens) {
    if (n_tokens != 400) return;
    for (size_t i = 0; i < others.size(); ++i) {
      GenerateOptions request = endless;
      request.claim.tenant = absl::StrCat("other ", i);
      EXPECT_TRUE(engine_->Submit(request, others[i]).ok());
    }
  };
  std::atomic<int> n_begun{0};
  for (const auto& other : others) {
    other->after_output = [&](int64_t n_tokens) {
      if (n_tokens == 1) ++n_begun;
      if (n_begun == 2) {
        for (const auto& stream : streams) stream->Abandon();
      }
    };
  }
  endless.claim.tenant = "endless";
  for (const auto& stream : streams) {
    ASSERT_TRUE(engine_->Submit(endless, stream).ok());
  }
  for (const auto& stream : streams) {
    EXPECT_EQ(stream->Await().status.code(), absl::StatusCode::kCancelled);
  }
  for (const auto& other : others) other->Abandon();
  for (const auto& other : others) other->Await();
  EXPECT_TRUE(engine_->Idle());
}

TEST_F(SlicesTest, ASlowReaderKeepsNoSlotFromOthersAndLosesNothing) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  GenerateOptions slow = Greedy(RandomIds(60, 1), 100);
  slow.claim.tenant = "slow";
  const Generated alone = Generate(*engine_, slow);
  const auto behind = std::make_shared<CollectSink>(/*limit=*/40);
  ASSERT_TRUE(engine_->Submit(slow, behind).ok());
  behind->AwaitRefusal();
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 30)).status.ok());
  EXPECT_EQ(engine_->CurrentLoad().running, 0);
  behind->Accept();
  engine_->Wake();
  EXPECT_TRUE(SameBits(behind->Await(), alone));
  // One that has said all needs no slot to be read.
  const auto last = std::make_shared<CollectSink>(/*limit=*/1);
  ASSERT_TRUE(engine_->Submit(slow, last).ok());
  last->AwaitRefusal();
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 30)).status.ok());
  last->Abandon();
  engine_->Wake();
  EXPECT_EQ(last->Await().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(engine_->Idle());
}

TEST_F(SlicesTest, TheNewestOfAFloodGivesWayWhereTheQueueIsFull) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1, .max_queued = 3});
  const auto running = std::make_shared<CollectSink>(/*limit=*/1);
  GenerateOptions flood = Greedy({7, 8}, 20);
  flood.claim.tenant = "flood";
  ASSERT_TRUE(engine_->Submit(flood, running).ok());
  running->AwaitRefusal();
  std::vector<std::shared_ptr<CollectSink>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(engine_->Submit(flood, waiting.back()).ok());
  }
  EXPECT_EQ(engine_->Submit(flood, std::make_shared<CollectSink>()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
  EXPECT_EQ(waiting[2]->Await().status.code(), absl::StatusCode::kAborted);
  // What goes on with a call that was admitted is refused by no queue.
  flood.is_admitted = true;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(std::make_shared<CollectSink>());
    EXPECT_TRUE(engine_->Submit(flood, waiting.back()).ok());
  }
  engine_->Drain();
  waiting.push_back(std::make_shared<CollectSink>());
  EXPECT_TRUE(engine_->Submit(flood, waiting.back()).ok());
  running->Accept();
  engine_->Wake();
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (i == 2) continue;  // it gave way
    EXPECT_TRUE(waiting[i]->Await().status.ok()) << i;
  }
}

}  // namespace
}  // namespace plimsoll::worker
