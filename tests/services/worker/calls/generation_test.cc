// Generate and StreamGenerate over real sockets.
#include "services/generation/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::Pair;

class GenerationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = new TestWorker;
    ASSERT_TRUE(worker_->Load("a").ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }

  grpc::Status Generate(const v1::GenerateRequest& request,
                        v1::GenerateResponse& response) {
    grpc::ClientContext context;
    return worker_->generation->Generate(&context, request, &response);
  }

  absl::Status Refusal(const v1::GenerateRequest& request) {
    v1::GenerateResponse response;
    return FromGrpc(Generate(request, response));
  }

  static TestWorker* worker_;
};

TestWorker* GenerationTest::worker_ = nullptr;

TEST_F(GenerationTest, AReplyHasAllItsParts) {
  v1::GenerateResponse response;
  ASSERT_TRUE(
      Generate(GreedyRequest<v1::GenerateRequest>("hello", 5), response).ok());
  EXPECT_EQ(response.tokens_size(), 5);
  EXPECT_TRUE(response.has_text());
  EXPECT_FALSE(response.tokens(0).has_logprob());
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(response.usage().generated_tokens(), 5u);
  EXPECT_EQ(response.usage().prompt_tokens(),
            static_cast<uint32_t>(response.prompt_ids_size()));
  EXPECT_EQ(response.model(), "a");
  EXPECT_EQ(response.memory().planned_bytes(),
            response.memory().allocated_bytes());
  EXPECT_TRUE(response.memory().has_device_allocations_after_load());
  EXPECT_EQ(response.memory().device_allocations_after_load(), 0u);
}

TEST_F(GenerationTest, CandidatesComeOnlyWhereAsked) {
  auto request = GreedyRequest<v1::GenerateRequest>("hello", 2);
  request.mutable_response()->set_top_logprobs(3);
  v1::GenerateResponse response;
  ASSERT_TRUE(Generate(request, response).ok());
  ASSERT_EQ(response.tokens(0).candidates_size(), 3);
  EXPECT_EQ(response.tokens(0).candidates(0).id(), response.tokens(0).id());
  EXPECT_EQ(response.tokens(0).candidates(0).logprob(),
            response.tokens(0).logprob());
  request.mutable_response()->set_top_logprobs(0);
  ASSERT_TRUE(Generate(request, response).ok());
  EXPECT_TRUE(response.tokens(0).has_logprob());
  EXPECT_EQ(response.tokens(0).candidates_size(), 0);
}

TEST_F(GenerationTest, TokensHaveBytesOnlyWhereAsked) {
  auto request = GreedyRequest<v1::GenerateRequest>("hello", 9);
  request.mutable_response()->set_top_logprobs(1);
  v1::GenerateResponse response;
  ASSERT_TRUE(Generate(request, response).ok());
  EXPECT_FALSE(response.tokens(0).has_text_bytes());
  EXPECT_FALSE(response.tokens(0).candidates(0).has_text_bytes());
  request.mutable_response()->set_token_bytes(true);
  ASSERT_TRUE(Generate(request, response).ok());
  ASSERT_EQ(response.tokens_size(), 9);
  for (const v1::GeneratedToken& token : response.tokens()) {
    EXPECT_TRUE(token.has_text_bytes());
    ASSERT_EQ(token.candidates(0).id(), token.id()) << "it is greedy";
    EXPECT_EQ(token.candidates(0).text_bytes(), token.text_bytes());
  }
}

TEST_F(GenerationTest, AStreamIsTheUnaryReplyInParts) {
  v1::GenerateResponse whole;
  ASSERT_TRUE(
      Generate(GreedyRequest<v1::GenerateRequest>("hello", 40), whole).ok());
  grpc::ClientContext context;
  const auto reader = worker_->generation->StreamGenerate(
      &context, GreedyRequest<v1::StreamGenerateRequest>("hello", 40));
  std::vector<v1::StreamGenerateResponse> parts;
  v1::StreamGenerateResponse part;
  while (reader->Read(&part)) parts.push_back(part);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_GE(parts.size(), 2u);
  std::string text;
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].has_prompt(), i == 0);
    EXPECT_EQ(parts[i].has_finish(), i + 1 == parts.size());
    text += parts[i].text();
    for (const auto& token : parts[i].tokens()) ids.push_back(token.id());
  }
  EXPECT_EQ(text, whole.text());
  ASSERT_EQ(ids.size(), 40u);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(ids[static_cast<size_t>(i)], whole.tokens(i).id());
  }
  EXPECT_EQ(parts[0].prompt().prompt_ids_size(), whole.prompt_ids_size());
  EXPECT_EQ(parts[0].prompt().n_ctx(), 4'096u);
}

TEST_F(GenerationTest, APromptThatIsTooLongIsRefusedWithBothNumbers) {
  v1::GenerateRequest request;
  request.set_model("a");
  for (int i = 0; i < 4'097; ++i) request.mutable_tokens()->add_ids(5);
  const absl::Status status = Refusal(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, v1::ERROR_REASON_PROMPT_TOO_LONG);
  EXPECT_THAT(details.metadata, Contains(Pair("prompt_tokens", "4097")));
  EXPECT_THAT(details.metadata, Contains(Pair("n_ctx", "4096")));
}

TEST_F(GenerationTest, AFullContextEndsOrFailsAsAsked) {
  v1::GenerateRequest request;
  request.set_model("a");
  for (int i = 0; i < 4'090; ++i) request.mutable_tokens()->add_ids(5);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse response;
  ASSERT_TRUE(Generate(request, response).ok());
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_LENGTH);
  request.set_context_policy(v1::CONTEXT_POLICY_ERROR);
  const absl::Status status = Refusal(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_CONTEXT_FULL);
}

// A prompt longer than the context of 4,096 tokens, which rolls.
template <typename Request>
Request RollRequest(v1::RollMethod method) {
  Request request;
  request.set_model("a");
  for (uint32_t i = 0; i < 4'100; ++i) {
    request.mutable_tokens()->add_ids(3 + i * 7 % 300);
  }
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_stopping()->set_max_tokens(5);
  request.set_context_policy(v1::CONTEXT_POLICY_ROLL);
  request.mutable_roll()->set_method(method);
  return request;
}

TEST_F(GenerationTest, AContextThatRollsSaysWhatLeft) {
  for (const auto method : {v1::ROLL_METHOD_SHIFT, v1::ROLL_METHOD_RECOMPUTE}) {
    v1::GenerateResponse whole;
    auto request = RollRequest<v1::GenerateRequest>(method);
    request.mutable_response()->set_prompt_logprobs(true);
    ASSERT_TRUE(Generate(request, whole).ok());
    EXPECT_EQ(whole.tokens_size(), 5);
    EXPECT_EQ(whole.prompt_logprobs_size(), 4'099);
    ASSERT_EQ(whole.evictions_size(), 1);
    const v1::Eviction& eviction = whole.evictions(0);
    // 4 pinned and 63 pages are full; to leave 3,072 tokens, 16 pages go.
    EXPECT_EQ(eviction.position(), 4u);
    EXPECT_EQ(eviction.tokens(), 16u * 64);
    EXPECT_EQ(eviction.kept_tokens(), 4 + 47u * 64);
    EXPECT_EQ(eviction.method(), method);
    EXPECT_EQ(whole.usage().evictions(), 1u);
    EXPECT_EQ(whole.usage().evicted_tokens(), 16u * 64);

    grpc::ClientContext context;
    const auto reader = worker_->generation->StreamGenerate(
        &context, RollRequest<v1::StreamGenerateRequest>(method));
    std::vector<uint32_t> ids;
    int n_evictions = 0;
    v1::StreamGenerateResponse part;
    v1::TokenUsage usage;
    while (reader->Read(&part)) {
      for (const auto& token : part.tokens()) ids.push_back(token.id());
      n_evictions += part.evictions_size();
      if (part.has_finish()) usage = part.finish().usage();
    }
    ASSERT_TRUE(reader->Finish().ok());
    EXPECT_EQ(n_evictions, 1);
    EXPECT_EQ(usage.evicted_tokens(), 16u * 64);
    ASSERT_EQ(ids.size(), 5u);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(ids[static_cast<size_t>(i)], whole.tokens(i).id());
    }
  }
}

TEST_F(GenerationTest, AReplyThatIsNoStreamNeedsALimitToRoll) {
  auto request = RollRequest<v1::GenerateRequest>(v1::ROLL_METHOD_SHIFT);
  request.mutable_tokens()->mutable_ids()->Truncate(3);
  request.mutable_stopping()->set_max_tokens(
      static_cast<uint32_t>(kMaxUnaryTokens + 1));
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  request.mutable_stopping()->clear_max_tokens();
  const absl::Status status = Refusal(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("stopping.max_tokens"));
  // At the limit it is taken, and ends by its stop token.
  request.mutable_stopping()->set_max_tokens(
      static_cast<uint32_t>(kMaxUnaryTokens));
  for (uint32_t id = 260; id < 323; ++id) {
    request.mutable_stopping()->add_stop_token_ids(id);
  }
  EXPECT_TRUE(Refusal(request).ok());
}

TEST_F(GenerationTest, APrefixThatLeavesTooLittleIsRefusedByName) {
  auto request = RollRequest<v1::GenerateRequest>(v1::ROLL_METHOD_SHIFT);
  request.mutable_roll()->set_pin_tokens(62 * 64 + 1);
  const absl::Status status = Refusal(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("pin_tokens: 3969"));
}

TEST_F(GenerationTest, WhatMakesNoSenseIsRefused) {
  v1::GenerateRequest request;
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  request.set_model("a");  // still no input
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  request.mutable_tokens();  // without ids
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  request.mutable_tokens()->add_ids(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  request.mutable_text();  // without content
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  request.mutable_chat();  // without messages
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GenerationTest, UnknownAndAbsentModelsAreToldApart) {
  auto request = GreedyRequest<v1::GenerateRequest>("hello", 1);
  request.set_model("/etc/passwd");
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kNotFound);
  request.set_model("b");
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(Refusal(request)).reason,
            v1::ERROR_REASON_MODEL_NOT_LOADED);
}

TEST_F(GenerationTest, ACancelFreesTheSlot) {
  grpc::ClientContext context;
  const auto reader = worker_->generation->StreamGenerate(
      &context, GreedyRequest<v1::StreamGenerateRequest>("hello", 0));
  v1::StreamGenerateResponse part;
  ASSERT_TRUE(reader->Read(&part));
  EXPECT_EQ(worker_->Describe("a").running(), 1u);
  context.TryCancel();
  while (reader->Read(&part)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  worker_->AwaitRunning("a", 0);
}

TEST_F(GenerationTest, ADeadlineEndsAStream) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(50));
  auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
  request.mutable_response()->set_top_logprobs(64);
  const auto reader = worker_->generation->StreamGenerate(&context, request);
  v1::StreamGenerateResponse part;
  while (reader->Read(&part)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  worker_->AwaitRunning("a", 0);
}

TEST_F(GenerationTest, AReaderThatStopsParksOnlyItsOwnStream) {
  grpc::ClientContext slow_context;
  auto slow = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
  slow.mutable_response()->set_top_logprobs(64);  // fills every buffer
  const auto reader = worker_->generation->StreamGenerate(&slow_context, slow);
  v1::StreamGenerateResponse part;
  ASSERT_TRUE(reader->Read(&part));
  for (int i = 0; i < 3; ++i) {
    v1::GenerateResponse response;
    ASSERT_TRUE(
        Generate(GreedyRequest<v1::GenerateRequest>("other", 200), response)
            .ok());
    EXPECT_EQ(response.tokens_size(), 200);
  }
  size_t n_tokens = static_cast<size_t>(part.tokens_size());
  bool is_finished = false;
  while (reader->Read(&part)) {
    n_tokens += static_cast<size_t>(part.tokens_size());
    is_finished = part.has_finish();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(is_finished);
  EXPECT_GT(n_tokens, 4'000u);  // nothing was lost
}

TEST_F(GenerationTest, ManyCallsAtOnceAllEnd) {
  constexpr int kCalls = 24;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>>>
      readers;
  for (int i = 0; i < kCalls; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(worker_->generation->StreamGenerate(
        contexts.back().get(),
        GreedyRequest<v1::StreamGenerateRequest>("hello", 8)));
  }
  for (int i = 0; i < kCalls; i += 3) {
    contexts[static_cast<size_t>(i)]->TryCancel();
  }
  for (int i = 0; i < kCalls; ++i) {
    const auto at = static_cast<size_t>(i);
    v1::StreamGenerateResponse part;
    while (readers[at]->Read(&part)) {
    }
    const grpc::Status status = readers[at]->Finish();
    if (i % 3 != 0) {
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
  }
  worker_->AwaitRunning("a", 0);
}

TEST_F(GenerationTest, AFullQueueRefusesWithARetryDelay) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>>>
      readers;
  const auto start = [&](int n) {
    for (int i = 0; i < n; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      readers.push_back(worker_->generation->StreamGenerate(
          contexts.back().get(), EndlessRequest()));
    }
  };
  start(2);
  worker_->AwaitRunning("a", 2);
  start(worker::EngineOptions::kMaxQueued);
  while (worker_->Describe("a").waiting() <
         static_cast<uint32_t>(worker::EngineOptions::kMaxQueued)) {
    std::this_thread::yield();
  }
  const absl::Status status =
      Refusal(GreedyRequest<v1::GenerateRequest>("one more", 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_TRUE(DetailsOf(status).retry_after.has_value());
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& reader : readers) {
    v1::StreamGenerateResponse part;
    while (reader->Read(&part)) {
    }
    reader->Finish();
  }
  worker_->AwaitRunning("a", 0);
}

TEST_F(GenerationTest, TextOfControlTokensStaysTextInAChat) {
  grpc::ClientContext plain_context;
  v1::ApplyChatTemplateRequest request;
  request.set_model("a");
  auto& message = *request.mutable_chat()->add_messages();
  message.set_role(v1::CHAT_ROLE_USER);
  message.set_content("hi");
  v1::ApplyChatTemplateResponse plain;
  ASSERT_TRUE(
      worker_->tokenizer->ApplyChatTemplate(&plain_context, request, &plain)
          .ok());
  EXPECT_EQ(plain.chat_format(), "chatml");
  EXPECT_GT(plain.ids_size(), 0);
}

TEST_F(GenerationTest, TokensBecomeTheirTextAgain) {
  grpc::ClientContext tokenize_context;
  v1::TokenizeRequest request;
  request.set_model("a");
  request.set_text("hello");
  v1::TokenizeResponse ids;
  ASSERT_TRUE(
      worker_->tokenizer->Tokenize(&tokenize_context, request, &ids).ok());
  grpc::ClientContext context;
  v1::DetokenizeRequest back;
  back.set_model("a");
  *back.mutable_ids() = ids.ids();
  v1::DetokenizeResponse text;
  ASSERT_TRUE(worker_->tokenizer->Detokenize(&context, back, &text).ok());
  EXPECT_EQ(text.text(), "hello");
  grpc::ClientContext count_context;
  v1::CountTokensRequest count;
  count.set_model("a");
  count.mutable_text()->set_text("hello");
  count.mutable_text()->set_add_bos(false);
  v1::CountTokensResponse counted;
  ASSERT_TRUE(
      worker_->tokenizer->CountTokens(&count_context, count, &counted).ok());
  EXPECT_EQ(counted.n_tokens(), static_cast<uint32_t>(ids.ids_size()));
}

}  // namespace
}  // namespace plimsoll::services
