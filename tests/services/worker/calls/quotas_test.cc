// Quotas of tenants, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/json.h"
#include "services/generation/quota_book.h"
#include "services/wire/errors.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

class QuotasTest : public ::testing::Test {
 protected:
  // Starts a worker where tenant "a" has these limits.
  void Start(const std::string& limits) {
    const std::string path = folder_.File("quotas.json");
    nlohmann::json quotas;
    quotas["tenants"]["a"] = nlohmann::json::parse(limits);
    std::ofstream(path) << quotas.dump();
    auto book = QuotaBook::Open(path, BootTime);
    ASSERT_TRUE(book.ok()) << book.status();
    book_ = *std::move(book);
    worker_ = std::make_unique<TestWorker>(
        TestWorkerSetup{.change = [this](WorkerOptions& options) {
          options.quotas = book_.get();
        }});
    ASSERT_TRUE(worker_->LoadWithContext("a", 512).ok());
  }

  absl::StatusOr<v1::GenerateResponse> Generate(
      const v1::GenerateRequest& request) {
    return GenerateAs("a", request);
  }
  absl::StatusOr<v1::GenerateResponse> GenerateAs(
      const std::string& tenant, const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    context.AddMetadata("x-tenant", tenant);
    v1::GenerateResponse response;
    const absl::Status status =
        FromGrpc(worker_->generation->Generate(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  static std::string QuotaIn(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const ErrorDetails details = DetailsOf(status);
    EXPECT_EQ(details.reason, v1::ERROR_REASON_QUOTA_EXCEEDED);
    return details.metadata.at("quota");
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<QuotaBook> book_;
  std::unique_ptr<TestWorker> worker_;
};

TEST_F(QuotasTest, AStreamThatRunsTakesItsTenantsPlace) {
  Start(R"({"requests": 1})");
  grpc::ClientContext context;
  context.AddMetadata("x-tenant", "a");
  const auto reader =
      worker_->generation->StreamGenerate(&context, EndlessRequest());
  worker_->AwaitRunning("a", 1);
  const auto request = GreedyRequest<v1::GenerateRequest>("hello", 1);
  EXPECT_EQ(QuotaIn(Generate(request).status()), "requests");
  EXPECT_TRUE(GenerateAs("b", request).ok());
  context.TryCancel();
  v1::StreamGenerateResponse part;
  while (reader->Read(&part)) continue;
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The client hears of the end at once; the worker, when its step is over.
  absl::StatusOr<v1::GenerateResponse> after = Generate(request);
  while (after.status().code() == absl::StatusCode::kResourceExhausted) {
    after = Generate(request);
  }
  EXPECT_TRUE(after.ok()) << after.status();
}

TEST_F(QuotasTest, TokensAreCountedAsTheyWereComputed) {
  Start(R"({"tokens_per_second": 1, "burst_tokens": 400})");
  const auto request = GreedyRequest<v1::GenerateRequest>("hello", 7);
  const auto reply = Generate(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  const TenantUsage usage = book_->Usage().at("a");
  EXPECT_EQ(usage.requests, 1);
  EXPECT_EQ(usage.prompt_tokens, reply->usage().prompt_tokens());
  EXPECT_EQ(usage.generated_tokens, 7);
  // Two of these need more than may be taken in so short a time.
  const auto long_request = GreedyRequest<v1::GenerateRequest>("hello", 300);
  EXPECT_TRUE(Generate(long_request).ok());
  EXPECT_EQ(QuotaIn(Generate(long_request).status()), "tokens_per_second");
  EXPECT_TRUE(GenerateAs("b", long_request).ok());
}

TEST_F(QuotasTest, AContextCountsWithItsPartOfASlot) {
  Start(R"({"kv_bytes": 1})");
  const auto request = GreedyRequest<v1::GenerateRequest>("hello", 1);
  const absl::Status refused = Generate(request).status();
  EXPECT_EQ(QuotaIn(refused), "kv_bytes");
  EXPECT_THAT(refused.message(), HasSubstr("never fits"));
}

TEST_F(QuotasTest, AnInputHasSoManyBytesAndNoMore) {
  Start(R"({"prompt_bytes": 5})");
  EXPECT_TRUE(Generate(GreedyRequest<v1::GenerateRequest>("hello", 1)).ok());
  const absl::Status refused =
      Generate(GreedyRequest<v1::GenerateRequest>("hello!", 1)).status();
  EXPECT_EQ(QuotaIn(refused), "prompt_bytes");
}

TEST_F(QuotasTest, AReplyHasSoManyTokensAndNoMore) {
  Start(R"({"max_tokens": 3})");
  EXPECT_TRUE(Generate(GreedyRequest<v1::GenerateRequest>("hello", 3)).ok());
  const absl::Status refused =
      Generate(GreedyRequest<v1::GenerateRequest>("hello", 4)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("stopping.max_tokens"));
  // A reply without a bound gets this one.
  const auto reply = Generate(GreedyRequest<v1::GenerateRequest>("hello", 0));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->usage().generated_tokens(), 3u);
}

TEST_F(QuotasTest, ATenantHasSoManySessionsAndNoMore) {
  Start(R"({"sessions": 1})");
  const auto open = [this](const std::string& id) {
    grpc::ClientContext context;
    context.AddMetadata("x-tenant", "a");
    v1::OpenSessionRequest request;
    request.set_model("a");
    request.set_session_id(id);
    v1::OpenSessionResponse response;
    return FromGrpc(
        worker_->sessions->OpenSession(&context, request, &response));
  };
  EXPECT_TRUE(open("one").ok());
  EXPECT_EQ(QuotaIn(open("two")), "sessions");
}

TEST_F(QuotasTest, AScoreIsAdmittedOnce) {
  Start(R"({"requests": 1, "tokens_per_second": 1, "burst_tokens": 20})");
  grpc::ClientContext context;
  context.AddMetadata("x-tenant", "a");
  v1::ScoreRequest request;
  request.set_model("a");
  request.mutable_text()->set_text("hello");
  for (int i = 0; i < 10; ++i) request.add_continuations()->set_text("world");
  v1::ScoreResponse response;
  const absl::Status status =
      FromGrpc(worker_->generation->Score(&context, request, &response));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(book_->Usage().at("a").requests, 10);
  const auto next = GreedyRequest<v1::GenerateRequest>("hello", 1);
  EXPECT_EQ(QuotaIn(Generate(next).status()), "tokens_per_second");
}

}  // namespace
}  // namespace plimsoll::services
