// How sessions begin and end, and who may use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/session_fixture.h"
#include "worker/engine/engine.h"
#include "worker/engine/session_book.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kRandomVocab;
using ::testing::HasSubstr;

TEST_F(SessionTest, OneCallAtATime) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 2});
  Open(Chat("a"));
  auto running = std::make_shared<CollectSink>();
  absl::Status second;
  bool was_busy = false;
  running->after_output = [&](int64_t n_tokens) {
    if (n_tokens != 2) return;
    second =
        engine_->Submit(Message("a", {9}, 1), std::make_shared<CollectSink>());
    was_busy = Info("a").is_busy;
  };
  ASSERT_TRUE(engine_->Submit(Message("a", {7, 8}, 4), running).ok());
  EXPECT_TRUE(running->Await().status.ok());
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(was_busy);
  EXPECT_FALSE(Info("a").is_busy);
  EXPECT_TRUE(Say("a", {9}, 1).status.ok());
}

TEST_F(SessionTest, ClosingEndsTheCallAndFreesTheSlot) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  Open(Chat("a"));
  auto running = std::make_shared<CollectSink>();
  std::atomic<int64_t> tokens_after{0};
  running->after_output = [&](int64_t n_tokens) {
    if (n_tokens == 3) {
      EXPECT_TRUE(engine_->CloseSession("a", "").ok());
    }
    if (n_tokens > 3) ++tokens_after;
  };
  ASSERT_TRUE(engine_->Submit(Message("a", {7, 8}, 0), running).ok());
  EXPECT_EQ(running->Await().status.code(), absl::StatusCode::kCancelled);
  EXPECT_LE(tokens_after, 2);
  EXPECT_EQ(engine_->GetSession("a", "").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Say("a", {9}, 1).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(engine_->CloseSession("a", "").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
  EXPECT_EQ(engine_->CurrentLoad().sessions, 0);
  // An idle session's slot, too.
  Open(Chat("a"));
  EXPECT_TRUE(Say("a", {9}, 3).status.ok());
  EXPECT_TRUE(engine_->CloseSession("a", "").ok());
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
}

TEST_F(SessionTest, OneSlotOfSeveralIsLeftToOthers) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 3});
  EXPECT_EQ(engine_->MaxSessions(), 2);
  Open(Chat("a"));
  Open(Chat("b"));
  EXPECT_EQ(engine_->OpenSession(Chat("b")).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(engine_->OpenSession(Chat("c")).status().code(),
            absl::StatusCode::kResourceExhausted);
  for (const char* id : {"a", "b"}) EXPECT_TRUE(Say(id, {9}, 3).status.ok());
  EXPECT_EQ(engine_->CurrentLoad().sessions, 2);
  EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
  int64_t bytes = 0;
  for (const EnginePart& part : engine_->parts()) {
    bytes += part.plan.kv.full_bytes + part.plan.kv.window_bytes;
  }
  EXPECT_EQ(Info("a").reserved_bytes * 3, bytes);
}

// A runs, B waits, and the session's call has the slot before B.
TEST_F(SessionTest, NobodyWaitsBesideTheSlotOfASessionThatIsIdle) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  EXPECT_EQ(engine_->MaxSessions(), 1);
  auto a = std::make_shared<CollectSink>();
  auto b = std::make_shared<CollectSink>();
  auto message = std::make_shared<CollectSink>();
  std::atomic<bool> b_has_begun{false};
  bool message_was_first = false;
  b->after_output = [&](int64_t) { b_has_begun = true; };
  message->after_output = [&](int64_t) { message_was_first = !b_has_begun; };
  a->after_output = [&](int64_t n_tokens) {
    if (n_tokens != 2) return;
    EXPECT_TRUE(engine_->Submit(Greedy({7}, 3), b).ok());
    Open(Chat("c"));
    GenerateOptions first = Message("c", {9}, 3);
    first.claim.priority = Priority::kHigh;
    EXPECT_TRUE(engine_->Submit(first, message).ok());
  };
  ASSERT_TRUE(engine_->Submit(Greedy({8}, 4), a).ok());
  EXPECT_TRUE(a->Await().status.ok());
  EXPECT_TRUE(message->Await().status.ok());
  EXPECT_TRUE(message_was_first);
  EXPECT_TRUE(b->Await().status.ok());
  EXPECT_EQ(Info("c").n_turns, 1);
}

TEST_F(SessionTest, ASessionThatGaveItsSlotUpSaysTheSame) {
  std::vector<std::vector<int32_t>> replies;
  for (const bool has_others : {false, true}) {
    // Without shared prefixes nothing is there of what it gave up.
    Load("gemma_k", {.n_ctx = 256, .n_slots = 1, .prefix_cache_bytes = 0});
    Open(Chat("a"));
    std::vector<int32_t> reply;
    for (int turn = 0; turn < 4; ++turn) {
      const auto said = Say("a", {9, 10, 11}, 12);
      ASSERT_TRUE(said.status.ok()) << said.status;
      EXPECT_EQ(said.info.n_cached > 0, turn > 0 && !has_others);
      const auto ids = said.ids();
      reply.insert(reply.end(), ids.begin(), ids.end());
      if (!has_others) continue;
      EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
    }
    replies.push_back(reply);
  }
  EXPECT_EQ(replies[0], replies[1]);
}

TEST_F(SessionTest, ARolledSessionThatGaveItsSlotUpGoesOn) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1});
  Open(Chat("a"));
  for (int turn = 0; turn < 12; ++turn) {
    ASSERT_TRUE(Say("a", {9, 10, 11}, 30).status.ok());
    if (turn % 3 != 2) continue;
    EXPECT_TRUE(Generate(*engine_, Greedy({7, 8}, 3)).status.ok());
  }
  const SessionInfo info = Info("a");
  EXPECT_EQ(info.n_turns, 12);
  EXPECT_GT(info.n_evictions, 0);
  EXPECT_LE(info.n_live_tokens, info.capacity_tokens);
}

TEST_F(SessionTest, ASessionNobodyUsesEndsAfterItsTtl) {
  std::atomic<int64_t> seconds{0};
  Load("llama_f32", {.n_ctx = 256, .n_slots = 2, .clock = [&seconds] {
                       return absl::UnixEpoch() + absl::Seconds(seconds.load());
                     }});
  SessionOptions options = Chat("a");
  options.ttl = absl::Seconds(10);
  Open(options);
  seconds = 9;
  EXPECT_EQ(Info("a").idle, absl::Seconds(9));
  ASSERT_TRUE(Say("a", {9}, 3).status.ok()) << "which uses it";
  seconds = 18;
  EXPECT_EQ(Info("a").age, absl::Seconds(18));
  EXPECT_EQ(Info("a").idle, absl::Seconds(9));
  EXPECT_EQ(engine_->Sessions("").size(), 1u);
  seconds = 19;
  EXPECT_EQ(engine_->Sessions("").size(), 0u);
  EXPECT_EQ(Say("a", {9}, 3).status.code(), absl::StatusCode::kNotFound);
  Open(options);
  EXPECT_TRUE(Say("a", {9}, 3).status.ok()) << "the slot is free again";
  engine_.reset();  // before its clock
}

TEST_F(SessionTest, ASessionThatExpiredRefusesNobody) {
  std::atomic<int64_t> seconds{0};
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1, .clock = [&seconds] {
                       return absl::UnixEpoch() + absl::Seconds(seconds.load());
                     }});
  Open(Chat("a"));
  ASSERT_TRUE(Say("a", {9}, 3).status.ok());
  seconds = absl::ToInt64Seconds(SessionOptions::kDefaultTtl);
  EXPECT_TRUE(Generate(*engine_, Greedy({7}, 1)).status.ok());
  EXPECT_EQ(engine_->CurrentLoad().sessions, 0);
  engine_.reset();  // before its clock
}

TEST_F(SessionTest, OthersDoNotSeeASession) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 4});
  SessionOptions options = Chat("a");
  options.owner = "one";
  Open(options);
  options.id = "b";
  Open(options);
  EXPECT_EQ(engine_->Sessions("one").size(), 2u);
  EXPECT_EQ(engine_->Sessions("one")[1].id, "b");
  EXPECT_EQ(engine_->Sessions("two").size(), 0u);
  EXPECT_EQ(engine_->GetSession("a", "two").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(engine_->CloseSession("a", "two").code(),
            absl::StatusCode::kNotFound);
  GenerateOptions message = Message("a", {9}, 1);
  message.claim.tenant = "two";
  EXPECT_EQ(Generate(*engine_, message).status.code(),
            absl::StatusCode::kNotFound);
  message.claim.tenant = "one";
  EXPECT_TRUE(Generate(*engine_, message).status.ok());
  options.id = "a";
  options.owner = "two";
  Open(options);  // nobody is told that another has this id
  EXPECT_EQ(engine_->GetSession("a", "two")->n_turns, 0);
  EXPECT_EQ(engine_->GetSession("a", "one")->n_turns, 1);
  EXPECT_EQ(engine_->OpenSession(options).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(SessionTest, NobodyTakesAllSessionsForEver) {
  std::atomic<int64_t> seconds{0};
  Load("llama_f32", {.n_ctx = 256, .n_slots = 5, .clock = [&seconds] {
                       return absl::UnixEpoch() + absl::Seconds(seconds.load());
                     }});
  const auto open = [&](const char* id, const char* owner, const char* peer) {
    SessionOptions options = Chat(id);
    options.owner = owner;
    options.peer = peer;
    options.ttl = SessionOptions::kMaxTtl;
    ++seconds;
    return engine_->OpenSession(options).status().code();
  };
  const auto n_of = [this](const char* owner) {
    return engine_->Sessions(owner).size();
  };
  for (const char* id : {"1", "2", "3", "4"}) {
    EXPECT_EQ(open(id, "greedy", "x"), absl::StatusCode::kOk);
  }
  EXPECT_EQ(open("5", "greedy", "x"), absl::StatusCode::kResourceExhausted);
  GenerateOptions message = Message("1", {9}, 1);
  message.claim.tenant = "greedy";
  EXPECT_TRUE(Generate(*engine_, message).status.ok());
  EXPECT_EQ(open("1", "other", "x"), absl::StatusCode::kOk);
  EXPECT_EQ(open("2", "other", "x"), absl::StatusCode::kOk);
  EXPECT_EQ(open("3", "other", "x"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(n_of("greedy"), 2u);
  EXPECT_TRUE(engine_->GetSession("1", "greedy").ok()) << "it was used last";
  // Four names have one each. They are of one peer, which another shares with.
  EXPECT_EQ(open("1", "new name", "x"), absl::StatusCode::kOk);
  EXPECT_EQ(open("1", "newer name", "x"), absl::StatusCode::kOk);
  EXPECT_EQ(open("1", "newest", "x"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(open("1", "far", "y"), absl::StatusCode::kOk);
  EXPECT_EQ(open("2", "far", "y"), absl::StatusCode::kOk);
  EXPECT_EQ(open("3", "far", "y"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(open("1", "third", "z"), absl::StatusCode::kOk);
  EXPECT_EQ(n_of("third"), 1u);
  engine_.reset();  // before its clock
}

TEST_F(SessionTest, TheOnlySessionGivesWayOnceNobodyUsesIt) {
  std::atomic<int64_t> seconds{0};
  Load("llama_f32", {.n_ctx = 256, .n_slots = 1, .clock = [&seconds] {
                       return absl::UnixEpoch() + absl::Seconds(seconds.load());
                     }});
  Open(Chat("a"));
  SessionOptions other = Chat("b");
  other.owner = "other";
  seconds = 5 * 60 - 1;
  EXPECT_EQ(engine_->OpenSession(other).status().code(),
            absl::StatusCode::kResourceExhausted);
  seconds = 5 * 60;
  EXPECT_TRUE(engine_->OpenSession(other).ok());
  EXPECT_EQ(engine_->GetSession("a", "").status().code(),
            absl::StatusCode::kNotFound);
  engine_.reset();  // before its clock
}

// Not even by talking without an end in each of them.
TEST_F(SessionTest, ASessionWithACallGivesWayIfNoOtherDoes) {
  std::atomic<int64_t> seconds{0};
  Load("llama_f32", {.n_ctx = 256, .n_slots = 4, .clock = [&seconds] {
                       return absl::UnixEpoch() + absl::Seconds(seconds.load());
                     }});
  const auto open = [&](const char* id, const char* owner) {
    SessionOptions options = Chat(id);
    options.owner = owner;
    return engine_->OpenSession(options).status().code();
  };
  std::vector<std::shared_ptr<CollectSink>> calls;
  const auto talk = [&](const char* id) {
    GenerateOptions endless = Message(id, {9}, 0);
    endless.claim.tenant = "greedy";
    calls.push_back(std::make_shared<CollectSink>());
    ++seconds;
    ASSERT_TRUE(engine_->Submit(endless, calls.back()).ok());
  };
  for (const char* id : {"1", "2", "3"}) {
    ASSERT_EQ(open(id, "greedy"), absl::StatusCode::kOk);
    if (*id != '2') talk(id);
  }
  EXPECT_EQ(open("1", "other"), absl::StatusCode::kOk);
  EXPECT_EQ(engine_->GetSession("2", "greedy").status().code(),
            absl::StatusCode::kNotFound)
      << "no call had it";
  EXPECT_EQ(open("2", "other"), absl::StatusCode::kResourceExhausted);
  seconds = absl::ToInt64Seconds(SessionBook::kKeptIdle);
  EXPECT_EQ(open("2", "other"), absl::StatusCode::kResourceExhausted)
      << "its calls have not run for so long";
  ++seconds;
  EXPECT_EQ(open("2", "other"), absl::StatusCode::kOk);
  const auto ended = calls[0]->Await().status;
  EXPECT_EQ(ended.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("gave way"));
  EXPECT_EQ(engine_->GetSession("1", "greedy").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(engine_->GetSession("3", "greedy")->is_busy) << "it goes on";
  EXPECT_TRUE(engine_->CloseSession("3", "greedy").ok());
  EXPECT_EQ(calls[1]->Await().status.code(), absl::StatusCode::kCancelled);
  engine_.reset();  // before its clock
}

TEST_F(SessionTest, LimitsAreTakenAndNoMore) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 8});
  const auto code = [this](const SessionOptions& options) {
    return engine_->OpenSession(options).status().code();
  };
  const auto n_bytes = static_cast<size_t>(SessionOptions::kMaxIdBytes);
  EXPECT_EQ(code(Chat(std::string(n_bytes, 'i'))), absl::StatusCode::kOk);
  EXPECT_EQ(code(Chat(std::string(n_bytes + 1, 'i'))),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Chat("")), absl::StatusCode::kInvalidArgument);
  SessionOptions options = Chat("ttl");
  options.ttl = SessionOptions::kMaxTtl + absl::Nanoseconds(1);
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
  options.ttl = absl::ZeroDuration();
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
  options.ttl = SessionOptions::kMaxTtl;
  EXPECT_EQ(code(options), absl::StatusCode::kOk);
  options = Chat("opening");
  options.frame = FrameOf(129);
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument)
      << "it must leave two pages";
  options.frame = FrameOf(128);
  EXPECT_EQ(code(options), absl::StatusCode::kOk);
  options = Chat("ids");
  options.frame.after_reply = {kRandomVocab};
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
  options.frame = Frame();
  options.evict_to = 257;
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);

  EXPECT_EQ(Say("ttl", {}, 1).status.code(),
            absl::StatusCode::kInvalidArgument);
  GenerateOptions scores = Message("ttl", {9}, 1);
  scores.prompt_logprobs = true;
  EXPECT_EQ(Generate(*engine_, scores).status.code(),
            absl::StatusCode::kInvalidArgument);
  engine_->Drain();
  EXPECT_EQ(code(Chat("late")), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Say("ttl", {9}, 1).status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace plimsoll::worker
