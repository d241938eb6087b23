// What an engine promises without preemption: who begins goes on to its end,
// who waits gets what the others leave, and not a bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
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
using ::plimsoll::testing::ExpectMixesChangeNothing;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::Sinks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using SharedSink = std::shared_ptr<CollectSink>;

class NoPreemptionTest : public plimsoll::testing::EngineFixture {
 protected:
  // `n_slots` slots of 256 tokens share `n_pages` pages of 64.
  void LoadPool(int64_t n_slots, int64_t n_pages) {
    Load("llama_f32", {.n_ctx = 256,
                       .n_slots = n_slots,
                       .kv_tokens = 64 * n_pages,
                       .preemption = Preemption::kOff});
  }

  // Submits a request that gives one token, and goes on when its sink accepts.
  SharedSink Hold(const GenerateOptions& request) {
    auto sink = std::make_shared<CollectSink>(/*limit=*/1);
    EXPECT_TRUE(engine_->Submit(request, sink).ok());
    sink->AwaitRefusal();
    return sink;
  }
  SharedSink Submit(const GenerateOptions& request) {
    return SubmitAll({request}).front();
  }
  // Submits a request that must not begin before `runs`, which is held, has
  // given its last token.
  SharedSink SubmitBehind(const SharedSink& runs, int64_t n_tokens,
                          const GenerateOptions& request) {
    const auto n_said = std::make_shared<std::atomic<int64_t>>(0);
    runs->after_output = [n_said](int64_t n) { *n_said = n; };
    auto sink = std::make_shared<CollectSink>();
    sink->after_output = [n_said, n_tokens](int64_t) {
      EXPECT_EQ(*n_said, n_tokens) << "it has begun too early";
    };
    EXPECT_TRUE(engine_->Submit(request, sink).ok());
    return sink;
  }
  void Release(const SharedSink& sink) {
    sink->Accept();
    engine_->Wake();
  }
  void Cancel(const SharedSink& sink) {
    sink->Abandon();
    engine_->Wake();
  }
  int64_t Reserved() const {
    return engine_->CurrentLoad().kv_reserved_pages.value_or(-1);
  }
  // Waits until the step thread has counted so many.
  void AwaitReserved(int64_t n_pages) const {
    while (Reserved() != n_pages) std::this_thread::yield();
  }

  void TearDown() override {
    if (engine_ == nullptr) return;
    EXPECT_EQ(engine_->CurrentLoad().preemptions, 0);
  }
};

// A request that computes `n_pages` whole pages.
GenerateOptions OfPages(int64_t n_pages, uint32_t seed) {
  return Greedy(RandomIds(60, seed), 64 * n_pages - 60 + 1);
}

class NoPreemptionFamilyTest
    : public NoPreemptionTest,
      public ::testing::WithParamInterface<ModelAndKv> {
 protected:
  // All that a reply keeps between two tokens.
  std::vector<GenerateOptions> Requests() {
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
      if (i % 5 == 3) requests.back().claim.tenant = "another";
    }
    return requests;
  }
};

// Four slots of six pages share nine.
TEST_P(NoPreemptionFamilyTest, WhoeverWaitsSaysTheSame) {
  EngineSetup setup = {.n_ctx = 384, .kv_type = GetParam().kv_type};
  std::vector<GenerateOptions> requests = Requests();
  Load(GetParam().model, setup);
  const std::vector<Generated> alone = EachAlone(*engine_, requests);
  EXPECT_EQ(engine_->CurrentLoad().kv_reserved_pages, std::nullopt);
  setup.n_slots = 4;
  setup.n_draft = 3;
  setup.kv_tokens = 9 * 64;
  setup.n_idle_sessions = 2;
  setup.preemption = Preemption::kOff;
  Load(GetParam().model, setup);
  for (size_t i = 0; i < requests.size(); i += 2) requests[i].draft_tokens = 3;
  ExpectAsAlone(SubmitAll(requests), alone);
  EXPECT_EQ(engine_->CurrentLoad().running, 0);
  EXPECT_EQ(engine_->CurrentLoad().preemptions, 0);
  ExpectMixesChangeNothing(*engine_, requests, alone, /*n_mixes=*/3, 7);
}

INSTANTIATE_TEST_SUITE_P(All, NoPreemptionFamilyTest,
                         ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                                           ModelAndKv{"gemma_k", DType::kQ8_0},
                                           ModelAndKv{"lfm2_q8_0",
                                                      DType::kF16}),
                         NameOfModelAndKv);

TEST_F(NoPreemptionTest, WhatFitsExactlyRunsAndOnePageMoreWaits) {
  LoadPool(/*n_slots=*/4, /*n_pages=*/5);
  const SharedSink first = Hold(OfPages(3, 1));
  EXPECT_EQ(Reserved(), 3);
  const SharedSink second = Hold(OfPages(2, 2));
  EXPECT_EQ(Reserved(), 5);
  // Two slots are free, and no page.
  const SharedSink third = SubmitBehind(second, 69, OfPages(1, 3));
  Release(second);
  EXPECT_EQ(second->Await().tokens.size(), 69u);
  EXPECT_EQ(third->Await().tokens.size(), 5u);
  Release(first);
  EXPECT_EQ(first->Await().tokens.size(), 133u);
}

TEST_F(NoPreemptionTest, WhoEndsEarlyOrIsCancelledLeavesAllThatItReserved) {
  LoadPool(/*n_slots=*/4, /*n_pages=*/5);
  // A token that the reply does not give earlier.
  const std::vector<int32_t> ids = Generate(*engine_, OfPages(4, 1)).ids();
  auto stop = ids.begin() + 2;
  while (std::find(ids.begin(), stop, *stop) != stop) ++stop;
  const int64_t n_early = stop - ids.begin() + 1;
  const SharedSink stays = Hold(OfPages(1, 2));
  GenerateOptions stops = OfPages(4, 1);
  stops.stop_tokens = {*stop};
  const SharedSink early = Hold(stops);
  EXPECT_EQ(Reserved(), 5);
  const SharedSink next = SubmitBehind(early, n_early, OfPages(4, 3));
  Release(early);
  EXPECT_EQ(early->Await().info.reason, FinishReason::kStopToken);
  EXPECT_TRUE(next->Await().status.ok());
  const SharedSink cancelled = Hold(OfPages(4, 4));
  const SharedSink last = Submit(OfPages(4, 5));
  Cancel(cancelled);
  EXPECT_TRUE(last->Await().status.ok());
  EXPECT_EQ(cancelled->Await().status.code(), absl::StatusCode::kCancelled);
  Release(stays);
  EXPECT_TRUE(stays->Await().status.ok());
}

TEST_F(NoPreemptionTest, WhoIsCancelledWhileItWaitsKeepsNobodyWaiting) {
  LoadPool(/*n_slots=*/4, /*n_pages=*/5);
  const SharedSink runs = Hold(OfPages(2, 1));
  const SharedSink large = Submit(OfPages(4, 2));
  const SharedSink small = Submit(OfPages(1, 3));
  Cancel(large);
  EXPECT_TRUE(small->Await().status.ok());
  EXPECT_EQ(large->Await().status.code(), absl::StatusCode::kCancelled);
  Release(runs);
  EXPECT_TRUE(runs->Await().status.ok());
}

// A request that needs little does not overtake one of its tenant that needs
// more, and tenants have their turns as ever.
TEST_F(NoPreemptionTest, TheQueueKeepsItsOrder) {
  LoadPool(/*n_slots=*/4, /*n_pages=*/4);
  const auto of = [](int64_t n_pages, const char* tenant, uint32_t seed) {
    GenerateOptions request = OfPages(n_pages, seed);
    request.claim.tenant = tenant;
    return request;
  };
  const SharedSink runs = Hold(of(3, "a", 1));
  std::vector<std::string> order;  // changed on the step thread only
  Sinks sinks;
  const auto submit = [&](const char* name, const GenerateOptions& request) {
    sinks.push_back(std::make_shared<CollectSink>());
    sinks.back()->after_output = [&order, name](int64_t n_tokens) {
      if (n_tokens == 1) order.push_back(name);
    };
    EXPECT_TRUE(engine_->Submit(request, sinks.back()).ok());
  };
  submit("large of a", of(4, "a", 2));
  submit("small of a", of(1, "a", 3));
  submit("large of b", of(4, "b", 4));
  Release(runs);
  EXPECT_TRUE(runs->Await().status.ok());
  for (const SharedSink& sink : sinks) EXPECT_TRUE(sink->Await().status.ok());
  engine_.reset();  // the step thread has ended
  EXPECT_THAT(order, ElementsAre("large of b", "large of a", "small of a"));
}

// Neither another tenant nor a higher priority takes a slot, however long it
// waits.
TEST_F(NoPreemptionTest, WhoRunsKeepsItsSlotWhoeverWaits) {
  Load("llama_f32",
       {.n_ctx = 1'024, .n_slots = 1, .preemption = Preemption::kOff});
  GenerateOptions stream = Greedy(RandomIds(60, 1), 900);
  stream.claim = {.tenant = "long", .priority = Priority::kLow};
  const SharedSink runs = Hold(stream);
  GenerateOptions urgent = Greedy({7, 8}, 3);
  urgent.claim = {.tenant = "other", .priority = Priority::kHigh};
  const SharedSink waits = SubmitBehind(runs, 900, urgent);
  Release(runs);
  EXPECT_TRUE(runs->Await().status.ok());
  EXPECT_TRUE(waits->Await().status.ok());
}

TEST_F(NoPreemptionTest, AReaderThatIsBehindKeepsItsSlotUntilItHasAllTokens) {
  LoadPool(/*n_slots=*/1, /*n_pages=*/4);
  const GenerateOptions request = Greedy(RandomIds(60, 1), 100);
  const Generated alone = Generate(*engine_, request);
  const SharedSink behind = Hold(request);
  const SharedSink other = SubmitBehind(behind, 100, Greedy({7, 8}, 3));
  Release(behind);
  EXPECT_TRUE(SameBits(behind->Await(), alone));
  EXPECT_TRUE(other->Await().status.ok());
  // One that has said all needs no slot to be read.
  const auto last = std::make_shared<CollectSink>(/*limit=*/99);
  ASSERT_TRUE(engine_->Submit(request, last).ok());
  last->AwaitRefusal();
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
  Release(last);
  EXPECT_TRUE(SameBits(last->Await(), alone));
}

TEST_F(NoPreemptionTest, WhatCanNeverFitIsRefusedAtOnce) {
  LoadPool(/*n_slots=*/4, /*n_pages=*/1);
  EXPECT_EQ(engine_->CurrentLoad().kv_pages, 4) << "a pool holds a context";
  const Generated whole = Generate(*engine_, Greedy(RandomIds(256, 1), 0));
  EXPECT_EQ(whole.info.reason, FinishReason::kLength);
  const absl::Status refused = engine_->Submit(Greedy(RandomIds(257, 1), 1),
                                               std::make_shared<CollectSink>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("has 257 tokens, the context of a slot 256"));
}

TEST_F(NoPreemptionTest, AReplyThatNothingBoundsIsRefused) {
  LoadPool(/*n_slots=*/2, /*n_pages=*/4);
  GenerateOptions rolls = Greedy(RandomIds(60, 1), 0);
  rolls.roll.policy = ContextPolicy::kRoll;
  const absl::Status refused =
      engine_->Submit(rolls, std::make_shared<CollectSink>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("set max_tokens"));
  rolls.max_tokens = 1;
  EXPECT_TRUE(Generate(*engine_, rolls).status.ok());
  rolls.max_tokens = 0;
  rolls.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_EQ(Generate(*engine_, rolls).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(NoPreemptionTest, WhatRunningRequestsShareIsReservedOnce) {
  LoadPool(/*n_slots=*/2, /*n_pages=*/5);
  const std::vector<int32_t> opening = RandomIds(130, 1);
  const SharedSink first = Hold(Greedy(opening, 127));
  EXPECT_EQ(Reserved(), 4);
  // It needs three pages, of which the first request holds two.
  const Generated second = Generate(*engine_, Greedy(opening, 63));
  EXPECT_EQ(second.info.n_cached, 128);
  // Four would be one too many: it waits.
  const SharedSink third = SubmitBehind(first, 127, Greedy(opening, 64));
  Release(first);
  EXPECT_TRUE(first->Await().status.ok());
  EXPECT_EQ(third->Await().tokens.size(), 64u);
}

// A session that no call uses gives its pages up, and one that a call uses
// keeps a whole context.
TEST_F(NoPreemptionTest, SessionsReserveAWholeContext) {
  LoadPool(/*n_slots=*/4, /*n_pages=*/9);
  EXPECT_EQ(engine_->MaxSessions(), 1);
  SessionOptions session;
  session.frame = {.opening = {5}, .after_user = {6}, .after_reply = {7}};
  session.id = "a";
  ASSERT_TRUE(engine_->OpenSession(session).ok());
  GenerateOptions message = Greedy(RandomIds(70, 3), 30);
  message.session_id = "a";
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_TRUE(Generate(*engine_, message).status.ok());
  }
  EXPECT_EQ(Reserved(), 4);
  const SharedSink first = Hold(OfPages(4, 1));
  EXPECT_EQ(Reserved(), 8);
  EXPECT_TRUE(Generate(*engine_, OfPages(2, 2)).status.ok());
  AwaitReserved(4);  // the session gave its pages up
  // Its next message computes what was said again.
  const SharedSink call = Hold(message);
  EXPECT_EQ(Reserved(), 8);
  const SharedSink waits = SubmitBehind(call, 30, OfPages(2, 3));
  Release(call);
  EXPECT_TRUE(call->Await().status.ok());
  EXPECT_TRUE(waits->Await().status.ok());
  Release(first);
  EXPECT_TRUE(first->Await().status.ok());
  message.max_tokens = 0;
  EXPECT_EQ(Generate(*engine_, message).status.code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::worker
