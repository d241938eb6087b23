// Floods of one tenant beside another, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kQueued = worker::EngineOptions::kMaxQueued;

// Streams of one tenant that nobody reads and that do not end by themselves.
class FairSharesTest : public ::testing::Test {
 protected:
  // On a busy machine a flood may take longer than the 30 s after which a
  // worker ends a stream that nobody reads.
  FairSharesTest() : FairSharesTest(absl::Minutes(10)) {}
  explicit FairSharesTest(absl::Duration reader_timeout)
      : worker_({.reader_timeout = reader_timeout}) {}

  struct Stream {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>> reader;
  };

  void SetUp() override { ASSERT_TRUE(worker_.Load("a").ok()); }
  void TearDown() override {
    for (const Stream& stream : flood_) stream.context->TryCancel();
    for (const Stream& stream : flood_) End(stream).IgnoreError();
    worker_.AwaitRunning("a", 0);
  }

  static absl::Status End(const Stream& stream) {
    v1::StreamGenerateResponse part;
    while (stream.reader->Read(&part)) continue;
    return FromGrpc(stream.reader->Finish());
  }

  Stream StartFlood() {
    Stream stream = {std::make_unique<grpc::ClientContext>(), nullptr};
    stream.context->AddMetadata("x-tenant", "flood");
    stream.context->AddMetadata("x-priority", "high");
    stream.reader = worker_.generation->StreamGenerate(stream.context.get(),
                                                       EndlessRequest());
    return stream;
  }

  // Fills all slots and the whole queue, in order.
  void Flood() {
    while (worker_.Describe("a").waiting() < kQueued) {
      flood_.push_back(StartFlood());
      const absl::Time end = absl::Now() + absl::Seconds(60);
      while (CountRequests() < flood_.size()) {
        ASSERT_LT(absl::Now(), end)
            << CountRequests() << " of " << flood_.size() << " streams";
        std::this_thread::yield();
      }
    }
  }

  // Counts all requests of the worker, also parked ones.
  size_t CountRequests() {
    grpc::ClientContext context;
    v1::GetLoadResponse load;
    const grpc::Status status = worker_.admin->GetLoad(&context, {}, &load);
    EXPECT_TRUE(status.ok()) << status.error_message();
    size_t n = 0;
    for (const v1::ModelActivity& model : load.models()) {
      n += static_cast<size_t>(model.requests_size());
    }
    return n;
  }

  TestWorker worker_;
  std::vector<Stream> flood_;
};

TEST_F(FairSharesTest, AnotherTenantIsRefusedNothingAndWaitsForNoEnd) {
  ASSERT_NO_FATAL_FAILURE(Flood());
  const size_t newest_waiting = flood_.size() - 1;
  // More of the same is refused.
  const absl::Status refused = End(StartFlood());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  for (int i = 0; i < 60; ++i) {
    grpc::ClientContext context;
    context.AddMetadata("x-tenant", "other");
    context.AddMetadata("x-priority", "low");
    v1::GenerateResponse response;
    const grpc::Status status = worker_.generation->Generate(
        &context, GreedyRequest<v1::GenerateRequest>("hello", 5), &response);
    EXPECT_TRUE(status.ok()) << i << ": " << status.error_message();
    flood_.push_back(StartFlood());
  }
  // The newest that waited gave way to the first of them.
  const Stream newest = std::move(flood_[newest_waiting]);
  flood_.erase(flood_.begin() + static_cast<int64_t>(newest_waiting));
  const absl::Status gone = End(newest);
  EXPECT_EQ(gone.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("gave way"));
  EXPECT_EQ(DetailsOf(gone).reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_TRUE(DetailsOf(gone).retry_after.has_value());
}

// Streams that have a slot and that nobody reads end soon, so that a score
// which waits for theirs does not wait long.
class FairScoreTest : public FairSharesTest {
 protected:
  FairScoreTest() : FairSharesTest(absl::Seconds(2)) {}
};

TEST_F(FairScoreTest, AScoreThatWasAdmittedIsComputedToItsEnd) {
  for (int i = 0; i < 2; ++i) flood_.push_back(StartFlood());
  worker_.AwaitRunning("a", 2);
  grpc::Status status;
  v1::ScoreResponse response;
  // Where the streams have parked by now, it takes their slots and does not
  // wait.
  std::atomic<bool> has_ended = false;
  std::thread score([&] {
    grpc::ClientContext context;
    context.AddMetadata("x-tenant", "flood");
    v1::ScoreRequest request;
    request.set_model("a");
    request.mutable_text()->set_text("hello");
    for (int i = 0; i < 16; ++i) request.add_continuations()->set_text("you");
    status = worker_.generation->Score(&context, request, &response);
    has_ended = true;
  });
  const auto await_waiting = [&](uint32_t n) {
    while (!has_ended && worker_.Describe("a").waiting() < n) {
      std::this_thread::yield();
    }
  };
  await_waiting(1);
  // Behind it the queue is full of its own tenant's.
  for (uint32_t n = 2; n <= kQueued; ++n) {
    flood_.push_back(StartFlood());
    await_waiting(n);
  }
  // Its first continuation gets a slot; then somebody takes its place in the
  // queue.
  flood_[0].context->TryCancel();
  for (int i = 0; i < 8; ++i) flood_.push_back(StartFlood());
  score.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.scores_size(), 16);
}

// A stream of a tenant holds all of a shared pool but two pages, and another
// that has begun waits for more.
TEST(SharedPool, WhoWaitsForPagesHoldsUpItsOwnTenantOnly) {
  TestWorker worker({.change = [](WorkerOptions& options) {
    options.load.n_slots = 4;
    options.load.kv_tokens = 384;
  }});
  ASSERT_TRUE(worker.LoadWithContext("a", 256).ok());
  grpc::ClientContext contexts[2];
  std::vector<std::thread> readers;
  for (const bool rolls : {true, false}) {
    grpc::ClientContext& context = contexts[readers.size()];
    context.AddMetadata("x-tenant", "greedy");
    readers.emplace_back([&worker, &context, rolls] {
      auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
      if (rolls) request.set_context_policy(v1::CONTEXT_POLICY_ROLL);
      const auto stream = worker.generation->StreamGenerate(&context, request);
      v1::StreamGenerateResponse part;
      while (stream->Read(&part)) continue;
      stream->Finish();
    });
    if (rolls) worker.AwaitRunning("a", 1);
  }
  v1::GetLoadResponse load;
  do {
    grpc::ClientContext context;
    ASSERT_TRUE(worker.admin->GetLoad(&context, {}, &load).ok());
  } while (load.models(0).preemptions() == 0);
  grpc::ClientContext context;
  context.AddMetadata("x-tenant", "other");
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  v1::GenerateResponse response;
  const grpc::Status status = worker.generation->Generate(
      &context, GreedyRequest<v1::GenerateRequest>("hello", 3), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (grpc::ClientContext& of : contexts) of.TryCancel();
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace plimsoll::services
