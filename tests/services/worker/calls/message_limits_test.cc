// Calls that would hold more memory than messages may take are refused, and
// nothing is held after a call.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/wire/errors.h"
#include "services/worker/models/message_bytes.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

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

  static void ExpectNothingHeld() {
    // A call that has ended gives back a moment after its client knows.
    while (messages().traffic().held_bytes > 0) std::this_thread::yield();
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
    // All of it, in two shares: no single one may have so much.
    auto most = messages().Take(messages().max_share_bytes());
    ASSERT_TRUE(most.ok());
    std::vector<ByteBudget::Share> rest;
    while (true) {
      auto share = messages().Take(ByteBudget::kMaxSmallBytes);
      if (!share.ok()) break;
      rest.push_back(*std::move(share));
    }
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
  ExpectNothingHeld();
}

TEST_F(MessageLimitsTest, ALargeCallDoesNotShutSmallOnesOut) {
  auto most = messages().Take(messages().max_share_bytes());
  ASSERT_TRUE(most.ok());
  EXPECT_TRUE(Tokenize("hello").ok());
  EXPECT_TRUE(Generate().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Count(std::string(1 << 20, 'a'))));
}

}  // namespace
}  // namespace plimsoll::services
