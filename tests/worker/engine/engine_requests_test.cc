// What an operator sees of an engine's streams, and how he ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kPrompt;
using ::plimsoll::testing::SameBits;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

GenerateOptions Named(const std::string& request_id, int64_t max_tokens) {
  GenerateOptions options = Greedy(kPrompt, max_tokens);
  options.request_id = request_id;
  return options;
}

class EngineRequestsTest : public plimsoll::testing::EngineFixture {
 protected:
  void Load(const EngineSetup& setup) {
    EngineFixture::Load("llama_half", setup);
  }

  struct Stream {
    int64_t max_tokens = 20;
    int64_t limit = INT64_MAX;  // bytes that its sink takes
  };
  std::shared_ptr<CollectSink> Submit(const std::string& request_id,
                                      const Stream& stream) {
    auto sink = std::make_shared<CollectSink>(stream.limit);
    EXPECT_TRUE(
        engine_->Submit(Named(request_id, stream.max_tokens), sink).ok());
    return sink;
  }

  // A sequence that holds its slot, its reader being behind after a token.
  std::shared_ptr<CollectSink> SubmitParked(const std::string& request_id) {
    auto sink = Submit(request_id, {.limit = 1});
    sink->AwaitRefusal();
    return sink;
  }

  std::vector<std::string> Abort(const std::vector<std::string>& request_ids) {
    return engine_->Abort(request_ids, absl::AbortedError("enough"));
  }
};

void ExpectAborted(CollectSink& sink) {
  const Generated got = sink.Await();
  EXPECT_EQ(got.status, absl::AbortedError("enough"));
}

TEST_F(EngineRequestsTest, ARunningStreamEndsWithinTwoSteps) {
  Load({});
  auto sink = std::make_shared<CollectSink>();
  std::atomic<int64_t> tokens_after{0};
  sink->after_output = [&](int64_t n_tokens) {
    if (n_tokens == 3) {
      EXPECT_THAT(Abort({"running"}), ElementsAre("running"));
    }
    if (n_tokens > 3) ++tokens_after;
  };
  ASSERT_TRUE(engine_->Submit(Named("running", 0), sink).ok());
  auto next = Submit("next", {.max_tokens = 3});
  ExpectAborted(*sink);
  EXPECT_LE(tokens_after, 2);
  EXPECT_TRUE(next->Await().status.ok()) << "its slot went to the next";
}

TEST_F(EngineRequestsTest, AWaitingStreamEndsAndTheRunningOneGoesOn) {
  Load({});
  const Generated alone = Generate(*engine_, Greedy(kPrompt, 20));
  auto parked = SubmitParked("parked");
  auto waiting = Submit("waiting", {});
  EXPECT_THAT(Abort({"waiting"}), ElementsAre("waiting"));
  const Generated got = waiting->Await();
  EXPECT_EQ(got.status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(got.info.n_generated, 0);
  parked->Accept();
  engine_->Wake();
  EXPECT_TRUE(SameBits(parked->Await(), alone));
}

TEST_F(EngineRequestsTest, AParkedStreamEndsAndFreesItsSlot) {
  Load({});
  auto parked = SubmitParked("parked");
  auto next = Submit("next", {.max_tokens = 3});
  EXPECT_THAT(Abort({"parked"}), ElementsAre("parked"));
  ExpectAborted(*parked);
  EXPECT_TRUE(next->Await().status.ok());
}

TEST_F(EngineRequestsTest, AParkedEndIsNoCompleteText) {
  Load({});
  auto sink = Submit("last", {.max_tokens = 5, .limit = 4});
  sink->AwaitRefusal();  // the fifth token, which is the last
  EXPECT_THAT(Abort({"last"}), ElementsAre("last"));
  ExpectAborted(*sink);
  EXPECT_TRUE(engine_->Idle());
}

TEST_F(EngineRequestsTest, AnUnknownIdAndAnEmptyOneEndNothing) {
  Load({});
  auto parked = SubmitParked("");
  EXPECT_THAT(Abort({"nobody", "", "nobody"}), IsEmpty());
  EXPECT_THAT(Abort({}), IsEmpty());
  parked->Accept();
  engine_->Wake();
  EXPECT_TRUE(parked->Await().status.ok());
}

TEST_F(EngineRequestsTest, AnIdOfSeveralEndsThemAll) {
  Load({.n_slots = 2});
  auto first = SubmitParked("same");
  auto other = SubmitParked("other");
  auto second = Submit("same", {});
  EXPECT_THAT(Abort({"same", "nobody"}), ElementsAre("same", "same"));
  ExpectAborted(*first);
  ExpectAborted(*second);
  EXPECT_THAT(engine_->AbortAll(absl::AbortedError("enough")),
              ElementsAre("other"));
  ExpectAborted(*other);
}

TEST_F(EngineRequestsTest, ALaterStreamOfTheSameIdIsNotAffected) {
  Load({});
  auto parked = SubmitParked("again");
  Abort({"again"});
  auto later = Submit("again", {.max_tokens = 3});
  ExpectAborted(*parked);
  EXPECT_TRUE(later->Await().status.ok());
}

TEST_F(EngineRequestsTest, TheListSaysWhoWaitsRunsAndIsParked) {
  std::atomic<int64_t> seconds{100};
  EngineSetup setup{.n_slots = 2};
  setup.clock = [&] { return absl::FromUnixSeconds(seconds); };
  Load(setup);
  auto parked = SubmitParked("parked");
  seconds = 107;
  std::vector<RequestInfo> seen;
  auto running = std::make_shared<CollectSink>();
  std::shared_ptr<CollectSink> waiting;
  running->after_output = [&](int64_t n_tokens) {
    if (n_tokens == 2) waiting = Submit("waiting", {});
    if (n_tokens == 3) seen = engine_->Requests(3);
  };
  ASSERT_TRUE(engine_->Submit(Named("running", 4), running).ok());
  ASSERT_TRUE(running->Await().status.ok());
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].request_id, "parked");
  EXPECT_EQ(seen[0].state, RequestState::kParked);
  EXPECT_EQ(seen[0].n_prompt, 5);
  EXPECT_EQ(seen[0].n_generated, 2);
  EXPECT_EQ(seen[0].age, absl::Seconds(7));
  EXPECT_EQ(seen[1].request_id, "running");
  EXPECT_EQ(seen[1].state, RequestState::kRunning);
  EXPECT_EQ(seen[1].n_generated, 3);
  EXPECT_EQ(seen[2].request_id, "waiting");
  EXPECT_EQ(seen[2].state, RequestState::kWaiting);
  EXPECT_EQ(seen[2].n_generated, 0);
  EXPECT_EQ(seen[2].age, absl::ZeroDuration());
  EXPECT_TRUE(waiting->Await().status.ok());
  engine_.reset();  // before its clock
}

TEST_F(EngineRequestsTest, TheListEndsAtItsLimit) {
  Load({});
  auto first = SubmitParked("1");
  auto second = Submit("2", {});
  EXPECT_EQ(engine_->Requests(3).size(), 2u);
  EXPECT_EQ(engine_->Requests(2).size(), 2u);
  ASSERT_EQ(engine_->Requests(1).size(), 1u);
  EXPECT_EQ(engine_->Requests(1)[0].request_id, "1") << "the oldest";
  EXPECT_THAT(engine_->Requests(0), IsEmpty());
  Abort({"1", "2"});
  ExpectAborted(*first);
  ExpectAborted(*second);
  EXPECT_THAT(engine_->Requests(3), IsEmpty());
}

TEST_F(EngineRequestsTest, TheLoadCountsPagesInUseUntilTheyAreGivenBack) {
  Load({.n_ctx = 256, .max_queued = 7});
  EXPECT_EQ(engine_->CurrentLoad().max_waiting, 7);
  EXPECT_EQ(engine_->CurrentLoad().kv_pages, 4);
  EXPECT_EQ(engine_->CurrentLoad().kv_used_pages, 0);
  for (int i = 0; i < 2; ++i) {
    std::vector<int64_t> used;
    auto sink = std::make_shared<CollectSink>();
    sink->after_output = [&](int64_t n_tokens) {
      if (n_tokens == 2 || n_tokens == 70) {
        used.push_back(engine_->CurrentLoad().kv_used_pages);
      }
    };
    ASSERT_TRUE(engine_->Submit(Named("", 70), sink).ok());
    ASSERT_TRUE(sink->Await().status.ok());
    EXPECT_THAT(used, ElementsAre(1, 2)) << "pages of 64 tokens";
  }
}

TEST_F(EngineRequestsTest, AnIdIsTakenUpToItsLimit) {
  Load({});
  const auto n_bytes = static_cast<size_t>(GenerateOptions::kMaxRequestIdBytes);
  EXPECT_TRUE(
      Generate(*engine_, Named(std::string(n_bytes, 'i'), 1)).status.ok());
  EXPECT_EQ(
      Generate(*engine_, Named(std::string(n_bytes + 1, 'i'), 1)).status.code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::worker
