// What an engine promises of sessions: against one-shot requests for the same
// tokens, and a plain list of what was said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/session_fixture.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kIsSanitized;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::ResidentBytes;
using ::plimsoll::testing::SameBits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What was said, kept as a list; the context's tokens as they must be.
class Transcript {
 public:
  explicit Transcript(const ChatFrame& frame) : frame_(frame) {
    Append(frame.opening, ids_);
  }

  // The tokens of the stream so far with the next message's.
  void AddMessage(const Ids& content) {
    if (!turns_.empty()) Append(frame_.after_reply, ids_);
    turns_.push_back(static_cast<int64_t>(ids_.size()));
    Append(content, ids_);
    Append(frame_.after_user, ids_);
  }
  void AddReply(const Ids& reply) { Append(reply, ids_); }
  void DropLast() { ids_.pop_back(); }

  // Notes what left, which must be whole turns, the oldest first.
  void Evict(const Eviction& eviction) {
    const auto pinned = static_cast<int64_t>(frame_.opening.size());
    ASSERT_EQ(eviction.position, pinned + evicted_);
    evicted_ += eviction.n_tokens;
    ASSERT_GT(eviction.n_turns, 0);
    first_turn_ += eviction.n_turns;
    ASSERT_LT(first_turn_, static_cast<int64_t>(turns_.size()));
    ASSERT_EQ(pinned + evicted_, turns_[static_cast<size_t>(first_turn_)])
        << "a turn was cut";
  }

  // The tokens of the context now.
  Ids Live() const {
    const auto pinned = static_cast<int64_t>(frame_.opening.size());
    Ids live(ids_.begin(), ids_.begin() + pinned);
    live.insert(live.end(), ids_.begin() + pinned + evicted_, ids_.end());
    return live;
  }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int64_t live_turns() const {
    return static_cast<int64_t>(turns_.size()) - first_turn_;
  }

 private:
  ChatFrame frame_;
  Ids ids_;
  std::vector<int64_t> turns_;  // where each begins
  int64_t first_turn_ = 0;
  int64_t evicted_ = 0;
};

class SessionFamilyTest : public SessionTest,
                          public ::testing::WithParamInterface<ModelAndKv> {};

TEST_P(SessionFamilyTest, AReplyIsThatOfTheWholeConversationAtOnce) {
  Load(GetParam().model,
       {.n_ctx = 512, .n_slots = 2, .kv_type = GetParam().kv_type});
  Open(Chat("a"));
  Transcript transcript(Frame());
  std::mt19937 random(2);
  int64_t computed = 0;
  for (int turn = 0; turn < 6; ++turn) {
    SCOPED_TRACE(turn);
    const Ids content =
        RandomIds(1 + static_cast<int64_t>(random() % 40), random);
    transcript.AddMessage(content);
    const Generated got = Say("a", content, 9);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_TRUE(SameBits(got, Fresh(transcript.Live(), 9)));
    EXPECT_EQ(got.info.n_cached, computed) << "only what is new was computed";
    EXPECT_EQ(got.info.n_prompt, transcript.size());
    transcript.AddReply(got.ids());
    computed = transcript.size() - 1;  // not the reply's last token
  }
  const SessionInfo info = Info("a");
  EXPECT_EQ(info.n_turns, 6);
  EXPECT_EQ(info.n_live_turns, 6);
  EXPECT_EQ(info.n_tokens, transcript.size());
  EXPECT_EQ(info.n_live_tokens, transcript.size());
  EXPECT_EQ(info.n_evictions, 0);
  EXPECT_FALSE(info.is_busy);
}

TEST_P(SessionFamilyTest, RecomputingIsAFreshPromptOfTheKeptTurnsBitForBit) {
  Load(GetParam().model,
       {.n_ctx = 256, .n_slots = 2, .kv_type = GetParam().kv_type});
  SessionOptions options = Chat("a");
  options.roll_method = RollMethod::kRecompute;
  Open(options);
  Transcript transcript(Frame());
  std::mt19937 random(3);
  int64_t n_compared = 0;
  for (int turn = 0; turn < 25; ++turn) {
    SCOPED_TRACE(turn);
    const Ids content =
        RandomIds(1 + static_cast<int64_t>(random() % 50), random);
    transcript.AddMessage(content);
    const int64_t n_said = transcript.size();
    const Generated got = Say("a", content, 4);
    ASSERT_TRUE(got.status.ok()) << got.status;
    bool is_before_reply = true;
    for (const Eviction& eviction : got.evictions) {
      EXPECT_EQ(eviction.method, RollMethod::kRecompute);
      ASSERT_NO_FATAL_FAILURE(transcript.Evict(eviction));
      is_before_reply &=
          eviction.position + eviction.n_tokens + eviction.n_kept - 12 < n_said;
    }
    if (is_before_reply) {
      EXPECT_TRUE(SameBits(got, Fresh(transcript.Live(), 4)));
      n_compared += got.evictions.empty() ? 0 : 1;
    }
    transcript.AddReply(got.ids());
    EXPECT_EQ(Info("a").n_live_turns, transcript.live_turns());
    EXPECT_EQ(Info("a").n_live_tokens,
              static_cast<int64_t>(transcript.Live().size()));
  }
  EXPECT_GT(n_compared, 3) << "or too little to see";
  EXPECT_GT(Info("a").n_evictions, 3);
}

TEST_P(SessionFamilyTest, ChunksOfAnySizeAndNeighboursChangeNoBit) {
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    std::vector<Generated> wanted;
    for (const int64_t n_ubatch : {512, 1, 7, 64}) {
      SCOPED_TRACE(n_ubatch);
      Load(GetParam().model, {.n_ctx = 256,
                              .n_slots = 2,
                              .n_ubatch = n_ubatch,
                              .kv_type = GetParam().kv_type,
                              .precision = Precision::kDefault,
                              .n_threads = n_ubatch == 7 ? 3 : 1});
      SessionOptions options = Chat("a");
      options.roll_method = method;
      Open(options);
      std::mt19937 random(4);
      std::shared_ptr<CollectSink> neighbour;
      for (size_t turn = 0; turn < 14; ++turn) {
        const Ids content =
            RandomIds(1 + static_cast<int64_t>(random() % 60), random);
        if (n_ubatch != 512) {
          neighbour = std::make_shared<CollectSink>();
          ASSERT_TRUE(
              engine_->Submit(Greedy(RandomIds(30, random), 10), neighbour)
                  .ok());
        } else {
          (void)RandomIds(30, random);
        }
        const Generated got = Say("a", content, 7);
        ASSERT_TRUE(got.status.ok()) << got.status;
        if (neighbour) {
          EXPECT_TRUE(neighbour->Await().status.ok());
        }
        if (n_ubatch == 512) wanted.push_back(got);
        EXPECT_TRUE(SameBits(got, wanted[turn])) << turn;
        ASSERT_EQ(got.evictions.size(), wanted[turn].evictions.size());
        for (size_t i = 0; i < got.evictions.size(); ++i) {
          EXPECT_EQ(got.evictions[i].n_tokens,
                    wanted[turn].evictions[i].n_tokens);
        }
      }
      EXPECT_GE(Info("a").n_evictions, 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SessionFamilyTest,
    ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                      ModelAndKv{"llama_q4_1", DType::kQ8_0},
                      ModelAndKv{"gemma_q5_0", DType::kF16},
                      ModelAndKv{"gemma_q5_0", DType::kBF16},
                      ModelAndKv{"deepseek2_q8_0", DType::kF16},
                      ModelAndKv{"lfm2_q8_0", DType::kF16},
                      ModelAndKv{"qwen35_q8_0", DType::kF16}),
    NameOfModelAndKv);

// With one layer, keys and values depend on their own token alone: what is left
// after an eviction in the middle of a page is what a fresh prompt has.
TEST_F(SessionTest, ShiftingOneLayerIsAFreshPromptOfTheKeptTurns) {
  for (const bool is_window : {false, true}) {
    RandomModel model = FindRandomModel("gemma_q5_0");
    model.n_layers = 1;
    model.pattern = {is_window};
    Load(model, {.n_ctx = 256, .n_slots = 2});
    Open(Chat("a"));
    Transcript transcript(Frame());
    std::mt19937 random(5);
    int64_t n_shifted = 0;
    for (int turn = 0; turn < 25; ++turn) {
      SCOPED_TRACE(turn);
      const Ids content =
          RandomIds(1 + static_cast<int64_t>(random() % 45), random);
      transcript.AddMessage(content);
      const Generated got = Say("a", content, 1);
      ASSERT_TRUE(got.status.ok()) << got.status;
      for (const Eviction& eviction : got.evictions) {
        ASSERT_NO_FATAL_FAILURE(transcript.Evict(eviction));
        n_shifted += eviction.method == RollMethod::kShift ? 1 : 0;
      }
      const Generated fresh = Fresh(transcript.Live(), 1);
      for (size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(got.tokens[0].candidates[i].id,
                  fresh.tokens[0].candidates[i].id);
        EXPECT_NEAR(got.tokens[0].candidates[i].logprob,
                    fresh.tokens[0].candidates[i].logprob, 3e-5);
      }
      transcript.AddReply(got.ids());
    }
    EXPECT_GT(n_shifted, 3);
  }
}

TEST_F(SessionTest, ATurnAsLongAsTheContextLeavesInPages) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  Open(Chat("a"));
  std::mt19937 random(6);
  ASSERT_TRUE(Say("a", RandomIds(20, random), 3).status.ok());
  // The opening has a page, three are left.
  const int64_t most = 3 * 64 - 4;
  const Generated refused = Say("a", RandomIds(most + 1, random), 3);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(refused.status.message()),
              AllOf(HasSubstr("193 tokens"), HasSubstr("192 behind its 12")));
  EXPECT_EQ(Info("a").n_turns, 1) << "nothing changed";

  const Generated got = Say("a", RandomIds(most, random), 90);
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_EQ(got.evictions.size(), 2u);
  EXPECT_EQ(got.evictions[0].n_turns, 1) << "which was less than a page";
  EXPECT_EQ(got.evictions[1].n_turns, 0);
  for (const Eviction& eviction : got.evictions) {
    EXPECT_EQ(eviction.n_tokens, 64);
  }
  EXPECT_EQ(Info("a").n_live_turns, 1);
  EXPECT_TRUE(Say("a", RandomIds(5, random), 3).status.ok());
}

TEST_F(SessionTest, TheModelsOwnEndIsNotSaidTwice) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 2});
  for (const int32_t end : {0, kEnd}) {
    const std::string id = absl::StrCat("ends with ", end);
    Open(Chat(id));
    std::mt19937 random(7);
    Transcript transcript(Frame());
    Ids content = RandomIds(5, random);
    transcript.AddMessage(content);
    GenerateOptions first = Message(id, content, 0);
    first.ignore_eos = false;
    first.logit_bias.biases = {{end, 900.0f}};
    const Generated ended = Generate(*engine_, first);
    ASSERT_TRUE(ended.status.ok()) << ended.status;
    ASSERT_THAT(ended.ids(), ElementsAre(end));
    // The frame's end follows an empty reply.
    content = RandomIds(5, random);
    transcript.AddMessage(content);
    EXPECT_TRUE(SameBits(Say(id, content, 6), Fresh(transcript.Live(), 6)));
    ASSERT_TRUE(engine_->CloseSession(id, "").ok());
  }
}

TEST_F(SessionTest, TurnsThatWereSaidBeforeAreAsIfSaidInIt) {
  Load("llama_f32", {.n_ctx = 512, .n_slots = 2});
  Open(Chat("a"));
  std::mt19937 random(31);
  SessionOptions again = Chat("again");
  Transcript transcript(Frame());
  for (int turn = 0; turn < 3; ++turn) {
    const Ids content = RandomIds(15 + turn, random);
    const Generated got = Say("a", content, 7);
    ASSERT_TRUE(got.status.ok()) << got.status;
    again.turns.push_back({content, got.ids()});
    transcript.AddMessage(content);
    transcript.AddReply(got.ids());
  }
  const Ids last = RandomIds(11, random);
  transcript.AddMessage(last);
  const Generated wanted = Say("a", last, 9);
  ASSERT_TRUE(engine_->CloseSession("a", "").ok());

  Open(again);
  EXPECT_EQ(Info("again").n_turns, 3);
  EXPECT_EQ(Info("again").n_live_turns, 3);
  const Generated got = Say("again", last, 9);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_TRUE(SameBits(got, wanted));
  EXPECT_TRUE(SameBits(got, Fresh(transcript.Live(), 9)));
  EXPECT_EQ(got.info.n_prompt, transcript.size());
  EXPECT_EQ(Info("again").n_turns, 4);
}

TEST_F(SessionTest, OldestTurnsThatDoNotFitAreLeftOut) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  std::mt19937 random(32);
  SessionOptions options = Chat("a");
  for (int turn = 0; turn < 9; ++turn) {
    options.turns.push_back({RandomIds(30, random), RandomIds(10, random)});
  }
  Open(options);
  // 192 tokens may stay. A turn has 44, another one 48, the opening 12.
  EXPECT_EQ(Info("a").n_turns, 3);
  Transcript transcript(Frame());
  for (size_t turn = 6; turn < 9; ++turn) {
    transcript.AddMessage(options.turns[turn].content);
    transcript.AddReply(options.turns[turn].reply);
  }
  EXPECT_EQ(Info("a").n_live_tokens, transcript.size());
  EXPECT_EQ(Info("a").n_evictions, 0);
  const Ids content = RandomIds(8, random);
  transcript.AddMessage(content);
  const Generated got = Say("a", content, 5);
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_TRUE(engine_->CloseSession("a", "").ok());
  EXPECT_TRUE(SameBits(got, Fresh(transcript.Live(), 5)));
}

TEST_F(SessionTest, OfOneTurnThatIsTooLongTheNewestTokensStay) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  std::mt19937 random(33);
  SessionOptions options = Chat("a");
  options.turns.push_back({RandomIds(9, random), RandomIds(9, random)});
  options.turns.push_back({RandomIds(500, random), RandomIds(20, random)});
  Open(options);
  EXPECT_EQ(Info("a").n_turns, 1);
  EXPECT_EQ(Info("a").n_live_tokens, 192);
  const Generated got = Say("a", RandomIds(8, random), 5);
  EXPECT_TRUE(got.status.ok()) << got.status;
}

TEST_F(SessionTest, TurnsThatWereSaidBeforeHaveLimits) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  SessionOptions options = Chat("a");
  options.turns.assign(static_cast<size_t>(SessionOptions::kMaxTurns) + 1,
                       {{5}, {6}});
  const absl::Status many = engine_->OpenSession(options).status();
  EXPECT_EQ(many.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(many.message()), HasSubstr("at most 2048"));
  options.turns.pop_back();
  options.turns.front().reply = {1 << 30};
  const absl::Status alien = engine_->OpenSession(options).status();
  EXPECT_EQ(alien.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(alien.message()), HasSubstr("turns.reply"));
  options.turns.front().reply = {7};
  EXPECT_TRUE(engine_->OpenSession(options).ok());
}

TEST_F(SessionTest, WhatACancelledCallSaidStays) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  Open(Chat("a"));
  std::mt19937 random(8);
  Transcript transcript(Frame());
  Ids content = RandomIds(9, random);
  transcript.AddMessage(content);
  auto sink = std::make_shared<CollectSink>();
  sink->after_output = [&](int64_t n_tokens) {
    if (n_tokens == 5) sink->Abandon();
  };
  ASSERT_TRUE(engine_->Submit(Message("a", content, 0), sink).ok());
  const Generated cancelled = sink->Await();
  EXPECT_EQ(cancelled.status.code(), absl::StatusCode::kCancelled);
  transcript.AddReply(cancelled.ids());
  content = RandomIds(9, random);
  transcript.AddMessage(content);
  const Generated next = Say("a", content, 5);
  ASSERT_TRUE(next.status.ok()) << next.status;
  ASSERT_TRUE(engine_->CloseSession("a", "").ok());
  EXPECT_TRUE(SameBits(next, Fresh(transcript.Live(), 5)));
}

// A session and a message to it whose deadline has passed.
class LateMessageTest : public SessionTest {
 protected:
  LateMessageTest() {
    Load("llama_f32", {.n_ctx = 256, .n_slots = 2});
    Open(Chat("a"));
    transcript_.emplace(Frame());
    const Ids content = RandomIds(9, random_);
    transcript_->AddMessage(content);
    late_ = Message("a", content, 5);
    late_.deadline = absl::InfinitePast();
  }

  // The next reply is that to both messages.
  void ExpectNothingLost() {
    const Ids content = RandomIds(3, random_);
    transcript_->AddMessage(content);
    EXPECT_TRUE(SameBits(Say("a", content, 5), Fresh(transcript_->Live(), 5)));
  }

  std::mt19937 random_{9};
  std::optional<Transcript> transcript_;
  GenerateOptions late_;
};

TEST_F(LateMessageTest, APassedDeadlineBeforeAnyRowLosesNothing) {
  EXPECT_EQ(Generate(*engine_, late_).status.code(),
            absl::StatusCode::kDeadlineExceeded);
  ExpectNothingLost();
}

// Calls `look` each time the engine asks whether somebody still reads.
class WatchedSink : public CollectSink {
 public:
  explicit WatchedSink(std::function<void()> look) : look_(std::move(look)) {}
  bool Abandoned() const override {
    look_();
    return CollectSink::Abandoned();
  }

 private:
  const std::function<void()> look_;
};

// The engine looks at its streams, and plans a step of them after that. A
// message comes in between.
TEST_F(LateMessageTest, ComputesNoRowWhenEverItComes) {
  const auto late_sink = std::make_shared<CollectSink>();
  std::atomic<bool> has_come = false;
  const auto other = std::make_shared<WatchedSink>([&] {
    if (has_come.exchange(true)) return;
    EXPECT_TRUE(engine_->Submit(std::move(late_), late_sink).ok());
  });
  ASSERT_TRUE(engine_->Submit(PlainText(RandomIds(4, random_), 3), other).ok());
  EXPECT_TRUE(other->Await().status.ok());
  const Generated got = late_sink->Await();
  EXPECT_EQ(got.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(got.status.message(), HasSubstr("after 0 generated tokens"));
  ExpectNothingLost();
}

TEST_F(SessionTest, PenaltiesFollowTheWholeConversation) {
  Load("llama_f32", {.n_ctx = 512, .n_slots = 2});
  Open(Chat("a"));
  std::mt19937 random(10);
  Transcript transcript(Frame());
  for (int turn = 0; turn < 3; ++turn) {
    const Ids content = RandomIds(6, random);
    transcript.AddMessage(content);
    GenerateOptions options = Message("a", content, 12);
    options.logit_bias.frequency_penalty = 3.0f;
    const Generated got = Generate(*engine_, options);
    ASSERT_TRUE(got.status.ok()) << got.status;
    options.session_id.clear();
    options.prompt_ids = transcript.Live();
    options.roll.policy = ContextPolicy::kRoll;
    options.roll.pin_tokens = 12;
    EXPECT_TRUE(SameBits(got, Generate(*engine_, options)));
    transcript.AddReply(got.ids());
  }
}

// The chat goes on a hundred times as long as its context.
constexpr int64_t kChatTokens = kIsSanitized ? 5'000 : 100'000;

TEST_F(SessionTest, ALongChatTakesNoMoreMemoryThanAShortOne) {
  Load("llama_f32", {.n_ctx = 1'024, .n_slots = 1});
  Open(Chat("a"));
  std::mt19937 random(11);
  Transcript transcript(Frame());
  int64_t warm_bytes = 0;
  while (transcript.size() < kChatTokens) {
    const Ids content =
        RandomIds(200 + static_cast<int64_t>(random() % 200), random);
    transcript.AddMessage(content);
    GenerateOptions message = Message("a", content, 10);
    message.top_logprobs = -1;
    const Generated got = Generate(*engine_, message);
    ASSERT_TRUE(got.status.ok()) << got.status;
    for (const Eviction& eviction : got.evictions) {
      ASSERT_NO_FATAL_FAILURE(transcript.Evict(eviction));
    }
    transcript.AddReply(got.ids());
    if (warm_bytes == 0 && transcript.size() > kChatTokens / 10) {
      warm_bytes = ResidentBytes();
    }
  }
  const SessionInfo info = Info("a");
  EXPECT_EQ(info.n_tokens, transcript.size());
  EXPECT_LE(info.n_live_tokens, info.capacity_tokens + 1);
  EXPECT_EQ(engine_->Memory().device_allocations_after_load, 0);
  if (!kIsSanitized) {
    // The test's own list of what was said is 4 bytes a token.
    EXPECT_LE(ResidentBytes() - warm_bytes, (1 << 20) + 8 * kChatTokens);
  }
}

}  // namespace
}  // namespace plimsoll::worker
