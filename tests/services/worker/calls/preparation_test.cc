// What calls tokenise is done on the pool, so that nothing else waits for it.
#include "services/worker/calls/preparation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Keeps every thread of a pool busy.
class PoolHold {
 public:
  explicit PoolHold(WorkPool& pool) {
    for (int i = 0; i < pool.n_threads(); ++i) {
      EXPECT_TRUE(pool.Submit({absl::StrCat("hold", i), WorkCost::kQuick,
                               std::make_shared<CallStop>(),
                               [release = release_](const absl::Status&) {
                                 release->WaitForNotification();
                               }})
                      .ok());
    }
    EXPECT_TRUE(
        pool.Await(static_cast<size_t>(pool.n_threads()), 0, kPatience));
  }
  void Release() { release_->Notify(); }

 private:
  // The work may outlive this.
  const std::shared_ptr<absl::Notification> release_ =
      std::make_shared<absl::Notification>();
};

class PreparationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = new TestWorker;
    ASSERT_TRUE(worker_->Load("a").ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }
  static size_t n_threads() {
    return static_cast<size_t>(worker_->pool->n_threads());
  }

  static TestWorker* worker_;
};

TestWorker* PreparationTest::worker_ = nullptr;

v1::CountTokensRequest Count(size_t bytes) {
  v1::CountTokensRequest request;
  request.set_model("a");
  request.mutable_text()->set_text(std::string(bytes, ' '));
  return request;
}

TEST_F(PreparationTest, SmallCallsGoOnWhileLargeOnesWait) {
  PoolHold hold(*worker_->pool);
  // gRPC has fewer threads than this.
  constexpr size_t kCalls = 8;
  std::vector<std::thread> clients;
  std::vector<grpc::Status> statuses(kCalls);
  for (size_t i = 0; i < kCalls; ++i) {
    clients.emplace_back([&statuses, i] {
      grpc::ClientContext context;
      v1::CountTokensResponse response;
      statuses[i] = worker_->tokenizer->CountTokens(
          &context, Count(kMaxInlineBytes + 1), &response);
    });
  }
  EXPECT_TRUE(worker_->pool->Await(n_threads(), kCalls, kPatience));
  while (worker_->pool->n_queued() < kCalls) std::this_thread::yield();

  grpc::ClientContext context;
  v1::GenerateResponse reply;
  EXPECT_TRUE(worker_->generation
                  ->Generate(&context,
                             GreedyRequest<v1::GenerateRequest>("hello", 5),
                             &reply)
                  .ok());
  EXPECT_EQ(reply.tokens_size(), 5);
  hold.Release();
  for (std::thread& client : clients) client.join();
  for (const grpc::Status& status : statuses) EXPECT_TRUE(status.ok());
}

TEST_F(PreparationTest, ACallThatIsCancelledWhileItWaitsEnds) {
  PoolHold hold(*worker_->pool);
  std::string prompt(kMaxInlineBytes + 1, 'x');
  {
    grpc::ClientContext context;
    auto reader = worker_->generation->StreamGenerate(
        &context, GreedyRequest<v1::StreamGenerateRequest>(prompt, 5));
    while (worker_->pool->n_queued() < 1) std::this_thread::yield();
    context.TryCancel();
    v1::StreamGenerateResponse part;
    EXPECT_FALSE(reader->Read(&part));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // Nothing of it is left in the queue, and its pass is given back.
  EXPECT_TRUE(worker_->pool->Await(n_threads(), 0, kPatience));
  while (worker_->gate.running() > 0) std::this_thread::yield();
  hold.Release();

  grpc::ClientContext context;
  v1::GenerateResponse reply;
  EXPECT_TRUE(worker_->generation
                  ->Generate(&context,
                             GreedyRequest<v1::GenerateRequest>("x", 1), &reply)
                  .ok());
}

TEST_F(PreparationTest, ALargePromptAndAConstraintArePreparedOnThePool) {
  for (const bool has_constraint : {false, true}) {
    auto request = GreedyRequest<v1::GenerateRequest>(
        std::string(has_constraint ? 1 : kMaxInlineBytes, 'x'), 2);
    if (has_constraint) {
      request.mutable_stopping()->set_ignore_eos(false);
      request.mutable_constraint()->set_regex("[a-z ]{1,9}");
    }
    PoolHold hold(*worker_->pool);
    grpc::Status status;
    v1::GenerateResponse reply;
    std::thread client([&] {
      grpc::ClientContext context;
      status = worker_->generation->Generate(&context, request, &reply);
    });
    while (worker_->pool->n_queued() < 1) std::this_thread::yield();
    hold.Release();
    client.join();
    // A long prompt of one letter may be too many tokens, which only a
    // tokenizer can say.
    EXPECT_TRUE(status.ok() ||
                status.error_code() == grpc::StatusCode::OUT_OF_RANGE)
        << status.error_message();
    EXPECT_TRUE(worker_->pool->Await(0, 0, kPatience));
  }
}

// Expects that `status` is the refusal of two mebibytes of spaces.
void ExpectTooLong(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("bytes, which are at least"));
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_PROMPT_TOO_LONG);
  EXPECT_THAT(DetailsOf(status).metadata, Contains(Pair("n_ctx", "4096")));
}

// Each request takes nearly all that one client may hold.
TEST_F(PreparationTest, WhatCannotFitIsRefusedByItsBytes) {
  const std::string spaces(2 << 20, ' ');
  worker_->AwaitNothingHeld();
  {
    grpc::ClientContext context;
    v1::GenerateResponse reply;
    ExpectTooLong(FromGrpc(worker_->generation->Generate(
        &context, GreedyRequest<v1::GenerateRequest>(spaces, 1), &reply)));
  }
  v1::OpenSessionRequest open;
  open.set_model("a");
  open.set_session_id("s");
  open.set_system(spaces);
  v1::OpenSessionResponse opened;
  worker_->AwaitNothingHeld();
  {
    grpc::ClientContext context;
    ExpectTooLong(
        FromGrpc(worker_->sessions->OpenSession(&context, open, &opened)));
  }
  open.clear_system();
  grpc::ClientContext opening;
  ASSERT_TRUE(worker_->sessions->OpenSession(&opening, open, &opened).ok());
  grpc::ClientContext chatting;
  v1::ChatRequest say;
  say.set_model("a");
  say.set_session_id("s");
  say.set_message(spaces);
  worker_->AwaitNothingHeld();
  const auto reader = worker_->sessions->Chat(&chatting, say);
  v1::ChatResponse part;
  EXPECT_FALSE(reader->Read(&part));
  ExpectTooLong(FromGrpc(reader->Finish()));
}

// A model with tokens of many letters q: the most text that fits its context
// takes long to tokenise.
plimsoll::testing::RandomModel LongWordModel() {
  plimsoll::testing::RandomModel model =
      plimsoll::testing::FindRandomModel("gemma_k");
  for (size_t n = 2; n <= 1'024; n *= 2) {
    model.last_tokens.emplace_back(std::string(n, 'q'), 1);
  }
  return model;
}

TEST(OpenSessionTest, OneThatIsCancelledWhileItRunsOpensNothing) {
  TestWorker worker({.model = LongWordModel()});
  ASSERT_TRUE(worker.Load("a").ok());
  v1::OpenSessionRequest request;
  request.set_model("a");
  request.set_system(std::string(2 << 20, 'q'));
  grpc::ClientContext context;
  std::thread client([&] {
    v1::OpenSessionResponse opened;
    EXPECT_EQ(
        worker.sessions->OpenSession(&context, request, &opened).error_code(),
        grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(worker.pool->Await(1, 0, kPatience));
  context.TryCancel();
  client.join();
  EXPECT_TRUE(worker.pool->Await(0, 0, kPatience));
  grpc::ClientContext listing;
  v1::ListSessionsRequest list;
  list.set_model("a");
  v1::ListSessionsResponse sessions;
  EXPECT_TRUE(worker.sessions->ListSessions(&listing, list, &sessions).ok());
  EXPECT_EQ(sessions.sessions_size(), 0);

  grpc::ClientContext again;
  v1::OpenSessionResponse opened;
  const absl::Status status =
      FromGrpc(worker.sessions->OpenSession(&again, request, &opened));
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace plimsoll::services
