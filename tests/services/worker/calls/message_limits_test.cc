// Calls that would hold more memory than messages may take are refused, and
// nothing is held after a call.
#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/generation/message_bytes.h"
#include "services/server/peer.h"
#include "services/wire/errors.h"
#include "tests/sanitized.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

// In use, of all threads.
int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t ClientBytes(const google::protobuf::Message& request) {
  return static_cast<int64_t>(request.SpaceUsedLong());
}

// A stream of a client that does not read it.
class EndlessStream {
 public:
  EndlessStream(TestWorker& worker, const v1::StreamGenerateRequest& request)
      : reader_(worker.generation->StreamGenerate(&context_, request)) {}
  ~EndlessStream() {
    context_.TryCancel();
    reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>> reader_;
};

class MessageLimitsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = new TestWorker;
    ASSERT_TRUE(worker_->Load("a").ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }

  static ByteBudget& messages() { return worker_->registry->messages(); }

  template <typename Stub, typename Method, typename Request, typename Response>
  static absl::Status Call(Stub& stub, Method method, const Request& request,
                           Response& response) {
    grpc::ClientContext context;
    return FromGrpc((stub.*method)(&context, request, &response));
  }
  template <typename Stub, typename Method, typename Request>
  static absl::Status Drain(Stub& stub, Method method, const Request& request) {
    grpc::ClientContext context;
    const auto reader = (stub.*method)(&context, request);
    v1::StreamGenerateResponse part;
    while (reader->Read(&part)) {
    }
    return FromGrpc(reader->Finish());
  }

  static absl::Status Tokenize(const std::string& text) {
    v1::TokenizeRequest request;
    v1::TokenizeResponse response;
    request.set_model("a");
    request.set_raw_text(text);
    return Call(*worker_->tokenizer, &v1::TokenizerService::Stub::Tokenize,
                request, response);
  }
  static absl::Status Detokenize(size_t n_ids,
                                 v1::DetokenizeResponse& response) {
    v1::DetokenizeRequest request;
    request.set_model("a");
    for (size_t i = 0; i < n_ids; ++i) request.add_ids(5);
    return Call(*worker_->tokenizer, &v1::TokenizerService::Stub::Detokenize,
                request, response);
  }
  static absl::Status Count(const std::string& text) {
    v1::CountTokensRequest request;
    v1::CountTokensResponse response;
    request.set_model("a");
    request.mutable_text()->set_raw_text(text);
    return Call(*worker_->tokenizer, &v1::TokenizerService::Stub::CountTokens,
                request, response);
  }
  static absl::Status Render(const std::string& text) {
    v1::ApplyChatTemplateRequest request;
    v1::ApplyChatTemplateResponse response;
    request.set_model("a");
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role(v1::CHAT_ROLE_USER);
    message.set_content(text);
    return Call(*worker_->tokenizer,
                &v1::TokenizerService::Stub::ApplyChatTemplate, request,
                response);
  }
  static absl::Status Generate() {
    v1::GenerateResponse response;
    return Call(*worker_->generation, &v1::GenerationService::Stub::Generate,
                GreedyRequest<v1::GenerateRequest>("hello", 2), response);
  }
  static absl::Status Stream() {
    return Drain(*worker_->generation,
                 &v1::GenerationService::Stub::StreamGenerate,
                 GreedyRequest<v1::StreamGenerateRequest>("hello", 2));
  }
  static absl::Status Score() {
    v1::ScoreRequest request;
    v1::ScoreResponse response;
    request.set_model("a");
    request.mutable_text()->set_text("hello");
    request.add_continuations()->set_text("you");
    return Call(*worker_->generation, &v1::GenerationService::Stub::Score,
                request, response);
  }
  static absl::Status Open(const std::string& id) {
    v1::OpenSessionRequest request;
    v1::OpenSessionResponse response;
    request.set_model("a");
    request.set_session_id(id);
    return Call(*worker_->sessions, &v1::SessionService::Stub::OpenSession,
                request, response);
  }

  // All the memory, by peers of which each has little.
  static std::vector<ByteBudget::Share> TakeAll() {
    std::vector<ByteBudget::Share> shares;
    while (true) {
      auto share = messages().Take(absl::StrCat("peer ", shares.size()),
                                   ByteBudget::kMaxSmallBytes);
      if (!share.ok()) return shares;
      shares.push_back(*std::move(share));
    }
  }

  // A stream of a prompt of so many ids of one byte each; it never ends.
  static v1::StreamGenerateRequest Endless(int n_ids) {
    auto request = GreedyRequest<v1::StreamGenerateRequest>("", 0);
    request.set_context_policy(v1::CONTEXT_POLICY_ROLL);
    for (int i = 0; i < n_ids; ++i) request.mutable_tokens()->add_ids(5);
    return request;
  }

  static TestWorker* worker_;
};

TestWorker* MessageLimitsTest::worker_ = nullptr;

TEST_F(MessageLimitsTest, WithoutMemoryEveryKindOfCallIsToBeTriedAgain) {
  v1::DetokenizeResponse text;
  const std::vector<std::pair<const char*, std::function<absl::Status()>>>
      calls = {{"Tokenize", [] { return Tokenize("hello"); }},
               {"Detokenize", [&text] { return Detokenize(2, text); }},
               {"CountTokens", [] { return Count("hello"); }},
               {"ApplyChatTemplate", [] { return Render("hello"); }},
               {"Generate", [] { return Generate(); }},
               {"StreamGenerate", [] { return Stream(); }},
               {"Score", [] { return Score(); }},
               {"OpenSession", [] { return Open("one"); }}};
  {
    const std::vector<ByteBudget::Share> all = TakeAll();
    for (const auto& [name, call] : calls) {
      const absl::Status status = call();
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << name << ": " << status;
      const ErrorDetails details = DetailsOf(status);
      EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
      EXPECT_TRUE(details.retry_after.has_value()) << name;
      EXPECT_TRUE(details.metadata.contains("wanted_bytes")) << name;
    }
  }
  for (const auto& [name, call] : calls) {
    const absl::Status status = call();
    EXPECT_TRUE(status.ok()) << name << ": " << status;
  }
  worker_->AwaitNothingHeld();
}

TEST_F(MessageLimitsTest, WhatAPromptThatWaitsTakesIsCounted) {
  constexpr int kIds = 1 << 20;
  // Both slots are taken.
  std::vector<std::unique_ptr<EndlessStream>> streams;
  for (int i = 0; i < 2; ++i) {
    streams.push_back(std::make_unique<EndlessStream>(*worker_, Endless(2)));
  }
  worker_->AwaitRunning("a", 2);
  auto request = std::make_unique<v1::StreamGenerateRequest>(Endless(kIds));
  const int64_t held_before = messages().traffic().held_bytes;
  const int64_t heap_before = HeapBytes() - ClientBytes(*request);
  streams.push_back(std::make_unique<EndlessStream>(*worker_, *request));
  request.reset();
  while (worker_->Describe("a").waiting() == 0) std::this_thread::yield();
  const int64_t held = messages().traffic().held_bytes - held_before;
  EXPECT_GE(held, ByteBudget::kMaxSmallBytes);
  EXPECT_LE(held, 10 * kIds);
  if (!plimsoll::testing::kIsSanitized) {
    EXPECT_LE(HeapBytes() - heap_before, held + (2 << 20));
  }
  streams.clear();
  worker_->AwaitNothingHeld();
}

TEST_F(MessageLimitsTest, AFirstMessageThatIsTooLongIsRefused) {
  // The request is not; the reply says more.
  const v1::StreamGenerateRequest request = Endless(kMaxMessageBytes - 256);
  const absl::Status status =
      Drain(*worker_->generation, &v1::GenerationService::Stub::StreamGenerate,
            request);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("4194304"), std::string::npos) << status;
  worker_->AwaitNothingHeld();
}

TEST_F(MessageLimitsTest, ALargeCallDoesNotShutSmallOnesOut) {
  // Neither of its own client nor of others.
  auto most =
      messages().Take(PeerOf("ipv4:127.0.0.1:1"), messages().max_share_bytes());
  ASSERT_TRUE(most.ok());
  EXPECT_TRUE(Tokenize("hello").ok());
  EXPECT_TRUE(Generate().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Count(std::string(1 << 20, 'a'))));
}

}  // namespace
}  // namespace plimsoll::services
