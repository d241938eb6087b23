// Score over real sockets, against what Generate says of the same tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/wire/errors.h"
#include "services/worker/calls/score_call.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

class ScoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = new TestWorker;
    ASSERT_TRUE(worker_->Load("a").ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }

  static absl::Status Score(const v1::ScoreRequest& request,
                            v1::ScoreResponse& response) {
    grpc::ClientContext context;
    return FromGrpc(worker_->generation->Score(&context, request, &response));
  }
  static absl::Status Refusal(const v1::ScoreRequest& request) {
    v1::ScoreResponse response;
    return Score(request, response);
  }

  static TestWorker* worker_;
};

TestWorker* ScoreTest::worker_ = nullptr;

v1::ScoreRequest Request(const std::vector<uint32_t>& prompt) {
  v1::ScoreRequest request;
  request.set_model("a");
  for (const uint32_t id : prompt) request.mutable_tokens()->add_ids(id);
  return request;
}

void AddTokens(const std::vector<uint32_t>& ids, v1::ScoreRequest& request) {
  v1::TokenPrompt& tokens = *request.add_continuations()->mutable_tokens();
  for (const uint32_t id : ids) tokens.add_ids(id);
}

// What the model says after `prompt`, with log-probabilities.
v1::GenerateResponse Greedy(v1::GenerationService::Stub& stub,
                            const std::vector<uint32_t>& prompt) {
  v1::GenerateRequest request;
  request.set_model("a");
  for (const uint32_t id : prompt) request.mutable_tokens()->add_ids(id);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(4);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_response()->set_top_logprobs(3);
  grpc::ClientContext context;
  v1::GenerateResponse response;
  EXPECT_TRUE(stub.Generate(&context, request, &response).ok());
  return response;
}

TEST_F(ScoreTest, AScoreIsWhatGenerationSaysOfTheSameTokens) {
  const std::vector<uint32_t> prompt = {7, 90, 200, 31};
  const v1::GenerateResponse greedy = Greedy(*worker_->generation, prompt);
  std::vector<uint32_t> best;
  for (const auto& token : greedy.tokens()) {
    EXPECT_EQ(token.rank(), 1u);
    best.push_back(token.id());
  }
  v1::ScoreRequest request = Request(prompt);
  AddTokens(best, request);
  AddTokens({greedy.tokens(0).candidates(1).id(), 5}, request);
  AddTokens({best[0]}, request);
  v1::ScoreResponse response;
  const absl::Status status = Score(request, response);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(response.scores_size(), 3);
  EXPECT_EQ(response.prompt_ids_size(), 4);
  EXPECT_EQ(response.model(), "a");

  const v1::ContinuationScore& whole = response.scores(0);
  EXPECT_TRUE(whole.is_greedy());
  ASSERT_EQ(whole.logprobs_size(), 4);
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(whole.ids(i), best[static_cast<size_t>(i)]);
    EXPECT_EQ(whole.logprobs(i), greedy.tokens(i).logprob()) << i;
    sum += static_cast<double>(whole.logprobs(i));
  }
  EXPECT_DOUBLE_EQ(whole.logprob(), sum);
  EXPECT_FALSE(response.scores(1).is_greedy());
  EXPECT_EQ(response.scores(1).logprobs(0),
            greedy.tokens(0).candidates(1).logprob());
  EXPECT_EQ(response.scores(2).logprobs(0), whole.logprobs(0));
}

TEST_F(ScoreTest, TextIsTurnedIntoTokensApartFromThePrompt) {
  v1::ScoreRequest request;
  request.set_model("a");
  request.mutable_text()->set_text("hello");
  request.add_continuations()->set_text("world");
  v1::ScoreResponse response;
  ASSERT_TRUE(Score(request, response).ok());
  ASSERT_EQ(response.scores_size(), 1);
  EXPECT_GT(response.scores(0).ids_size(), 0);
  EXPECT_EQ(response.scores(0).ids_size(), response.scores(0).logprobs_size());
  EXPECT_LT(response.scores(0).logprob(), 0);
}

TEST_F(ScoreTest, ContinuationsAreTakenToTheirLimitAndNoFurther) {
  v1::ScoreRequest request = Request({7, 8});
  EXPECT_THAT(std::string(Refusal(request).message()),
              HasSubstr("continuations"));
  for (int i = 0; i < kMaxContinuations; ++i) AddTokens({9}, request);
  v1::ScoreResponse response;
  ASSERT_TRUE(Score(request, response).ok());
  EXPECT_EQ(response.scores_size(), kMaxContinuations);
  AddTokens({9}, request);
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ScoreTest, WhatCannotBeScoredIsNamed) {
  v1::ScoreRequest empty_prompt = Request({});
  empty_prompt.mutable_tokens();
  AddTokens({1}, empty_prompt);
  EXPECT_EQ(Refusal(empty_prompt).code(), absl::StatusCode::kInvalidArgument);

  for (const bool has_content : {false, true}) {
    v1::ScoreRequest request = Request({7});
    AddTokens({1}, request);
    v1::Continuation& bad = *request.add_continuations();
    if (has_content) bad.mutable_tokens();
    const absl::Status status = Refusal(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("continuations[1]"));
  }
  v1::ScoreRequest outside = Request({7});
  AddTokens({1 << 20}, outside);
  EXPECT_EQ(Refusal(outside).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ScoreTest, AContinuationFillsTheContextAndNoMore) {
  constexpr size_t kContext = 4'096;
  v1::ScoreRequest request = Request(std::vector<uint32_t>(kContext - 2, 7));
  AddTokens({8, 9}, request);
  v1::ScoreResponse response;
  const absl::Status status = Score(request, response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.scores(0).logprobs_size(), 2);
  AddTokens({8, 9, 10}, request);
  const absl::Status refusal = Refusal(request);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(DetailsOf(refusal).reason, v1::ERROR_REASON_PROMPT_TOO_LONG);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("4097"));
}

}  // namespace
}  // namespace plimsoll::services
