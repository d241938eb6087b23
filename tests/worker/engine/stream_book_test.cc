// Streams come, are reported, and are told to end.
#include "worker/engine/stream_book.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/chat/session_chat.h"

namespace plimsoll::worker {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

class StreamBookTest : public ::testing::Test {
 protected:
  absl::Status Add(const std::string& request_id, const std::string& tenant) {
    return AddOf(/*session=*/std::nullopt, request_id, tenant);
  }
  absl::Status AddOf(std::optional<int64_t> session,
                     const std::string& request_id, const std::string& tenant) {
    GenerateOptions request;
    request.request_id = request_id;
    request.claim.tenant = tenant;
    SequenceStart start = {
        .roll = {}, .history = TokenHistory(0), .session = session};
    start.history.Append(7);
    start.n_prompt = 1;
    return book_.Add(
        {.options = std::move(request), .sink = nullptr, .time = kNow},
        std::move(start));
  }

  // Gives free slots to those that wait.
  void Admit() {
    book_.scheduler().Admit([](int64_t, int64_t) {
      return Admission{.n_computed = 0, .limit = Scheduler::kNoLimit};
    });
  }

  StreamBook book_{{.n_slots = 1,
                    .n_rows = 8,
                    .max_queued = 2,
                    .max_sessions = 1,
                    .n_ctx = 1'024}};
  std::unique_ptr<Tokenizer> tokenizer_ = ByteTokenizer({});
};

TEST_F(StreamBookTest, ReportsStreamsTheOldestFirst) {
  ASSERT_TRUE(Add("first", "a").ok());
  ASSERT_TRUE(Add("second", "a").ok());
  Admit();
  const auto requests = book_.Requests(8, kNow + absl::Seconds(3));
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[0].request_id, "first");
  EXPECT_EQ(requests[0].state, RequestState::kRunning);
  EXPECT_EQ(requests[0].age, absl::Seconds(3));
  EXPECT_EQ(requests[1].request_id, "second");
  EXPECT_EQ(requests[1].state, RequestState::kWaiting);
  EXPECT_EQ(book_.Requests(1, kNow).size(), 1);
}

TEST_F(StreamBookTest, AnAbortedStreamEndsWhenItIsListed) {
  ASSERT_TRUE(Add("first", "a").ok());
  ASSERT_TRUE(Add("second", "a").ok());
  const auto ids =
      book_.Abort([](const std::string& id) { return id == "second"; },
                  absl::CancelledError("enough"));
  EXPECT_EQ(ids, std::vector<std::string>{"second"});
  std::vector<Sequence*> sequences;
  book_.List(sequences);
  ASSERT_EQ(sequences.size(), 2);
  EXPECT_FALSE(sequences[0]->end().has_value());
  ASSERT_TRUE(sequences[1]->end().has_value());
  EXPECT_EQ(*sequences[1]->end(), absl::CancelledError("enough"));
}

TEST_F(StreamBookTest, AFullQueueRefusesATenantThatHasMostOfIt) {
  ASSERT_TRUE(Add("first", "a").ok());
  ASSERT_TRUE(Add("second", "a").ok());
  EXPECT_EQ(Add("third", "a").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(StreamBookTest, AFullQueueMakesRoomForATenantThatHasLessOfIt) {
  ASSERT_TRUE(Add("first", "a").ok());
  ASSERT_TRUE(Add("second", "a").ok());
  ASSERT_TRUE(Add("third", "b").ok());
  std::vector<Sequence*> sequences;
  book_.List(sequences);
  ASSERT_EQ(sequences.size(), 3);
  ASSERT_TRUE(sequences[1]->end().has_value());
  EXPECT_EQ(sequences[1]->end()->code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(sequences[2]->end().has_value());
}

TEST_F(StreamBookTest, ClosingASessionEndsItsStreamOnly) {
  SessionOptions options;
  options.id = "chat";
  const auto key = book_.OpenSession(options, RollPlan{}, kNow);
  ASSERT_TRUE(key.ok());
  ASSERT_TRUE(AddOf(*key, "reply", "a").ok());
  ASSERT_TRUE(Add("other", "a").ok());
  book_.CloseSession(*key);
  std::vector<Sequence*> sequences;
  book_.List(sequences);
  ASSERT_EQ(sequences.size(), 2);
  EXPECT_EQ(sequences[0]->end()->code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(sequences[1]->end().has_value());
  EXPECT_EQ(book_.sessions().Get(*key), nullptr);
}

// A message was rendered with what its session had then.
TEST_F(StreamBookTest, ARenderingOfAnotherChatIsRefused) {
  SessionOptions options;
  options.id = "chat";
  options.chat = std::make_shared<const SessionChat>();
  const auto key = book_.OpenSession(options, RollPlan{}, kNow);
  ASSERT_TRUE(key.ok());
  EXPECT_TRUE(book_.sessions().KeepsTexts("chat"));
  EXPECT_FALSE(book_.sessions().KeepsTexts("another"));
  auto rendered = std::make_shared<RenderedChat>();
  rendered->turns = {
      std::make_shared<const ChatTurn>(ChatTurn{{ChatRole::kUser, "hello"}})};
  const auto say = [&] {
    GenerateOptions request;
    request.session_id = "chat";
    request.prompt_ids = {7};
    request.rendered = rendered;
    return book_.AddMessage(
        {.options = std::move(request), .sink = nullptr, .time = kNow}, nullptr,
        *tokenizer_);
  };
  rendered->before = std::make_shared<const ChatTurns>();
  EXPECT_EQ(say().code(), absl::StatusCode::kFailedPrecondition);
  rendered->before = book_.sessions().Get(*key)->said;
  EXPECT_TRUE(say().ok());
  EXPECT_TRUE(book_.sessions().Get(*key)->is_busy);
  EXPECT_EQ(say().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StreamBookTest, ATakenStreamIsGone) {
  ASSERT_TRUE(Add("first", "a").ok());
  const int64_t id = book_.sequences().begin()->first;
  book_.scheduler().Remove(id);
  EXPECT_EQ(book_.Take(id)->options().request_id, "first");
  EXPECT_TRUE(book_.empty());
}

}  // namespace
}  // namespace plimsoll::worker
