// AdminService over real sockets: load, drain, abort, and their limits.
#include "services/worker/calls/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/server/call.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// A stream of text under a request id, whose first message was read.
struct Stream {
  Stream(TestWorker& worker, const std::string& id) {
    context.AddMetadata("x-request-id", id);
    auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
    request.mutable_response()->set_top_logprobs(64);  // it parks unread
    reader = worker.generation->StreamGenerate(&context, request);
    EXPECT_TRUE(reader->Read(&part));
  }

  // Reads to the end.
  absl::Status End() {
    while (reader->Read(&part)) {
    }
    return FromGrpc(reader->Finish());
  }

  grpc::ClientContext context;
  v1::StreamGenerateResponse part;
  std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>> reader;
};

class AdminTest : public ::testing::Test {
 protected:
  v1::GetLoadResponse Load() {
    grpc::ClientContext context;
    v1::GetLoadResponse response;
    EXPECT_TRUE(worker_.admin->GetLoad(&context, {}, &response).ok());
    return response;
  }

  // A call may still be leaving when its client has the answer.
  void AwaitCalls(uint32_t n_calls) {
    while (Load().running_calls() != n_calls) std::this_thread::yield();
  }

  absl::Status Abort(const v1::AbortRequest& request,
                     v1::AbortResponse& response) {
    grpc::ClientContext context;
    return FromGrpc(worker_.admin->Abort(&context, request, &response));
  }

  absl::Status Drain(bool wait, v1::DrainResponse& response) {
    return DrainWithin(absl::Minutes(5), wait, response);
  }
  absl::Status DrainWithin(absl::Duration deadline, bool wait,
                           v1::DrainResponse& response) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    v1::DrainRequest request;
    request.set_wait(wait);
    return FromGrpc(worker_.admin->Drain(&context, request, &response));
  }

  absl::Status NewCall() {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    return FromGrpc(worker_.generation->Generate(
        &context, GreedyRequest<v1::GenerateRequest>("hello", 1), &response));
  }

  TestWorker worker_;
};

TEST_F(AdminTest, TheLoadNamesModelsAndRequests) {
  EXPECT_EQ(Load().models_size(), 0);
  ASSERT_TRUE(worker_.Load("a").ok());
  Stream stream(worker_, "first");
  AwaitCalls(1);
  v1::GetLoadResponse load = Load();
  // A stream's first message may come before its first token.
  while (load.models(0).generated_tokens() == 0) load = Load();
  EXPECT_FALSE(load.draining());
  ASSERT_EQ(load.models_size(), 1);
  const v1::ModelActivity& model = load.models(0);
  EXPECT_EQ(model.model(), "a");
  EXPECT_EQ(model.state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(model.n_slots(), 2u);
  EXPECT_EQ(model.running(), 1u);
  EXPECT_EQ(model.waiting(), 0u);
  EXPECT_EQ(model.max_waiting(), 64u);
  EXPECT_GT(model.kv_used_pages(), 0u);
  EXPECT_EQ(model.kv_pages() * model.page_tokens(), 2u * 4'096);
  ASSERT_EQ(model.requests_size(), 1);
  EXPECT_EQ(model.requests(0).request_id(), "first");
  EXPECT_GT(model.requests(0).prompt_tokens(), 0u);
  EXPECT_GT(model.requests(0).generated_tokens(), 0u);
  stream.context.TryCancel();
  EXPECT_EQ(stream.End().code(), Code::kCancelled);
}

TEST_F(AdminTest, AnAbortedClientIsToldWhyAndOthersGoOn) {
  ASSERT_TRUE(worker_.Load("a").ok());
  Stream doomed(worker_, "doomed");
  Stream other(worker_, "other");
  v1::AbortRequest request;
  request.add_request_ids("nobody");
  request.add_request_ids("doomed");
  request.add_request_ids("doomed");
  request.set_reason("maintenance at noon");
  v1::AbortResponse response;
  ASSERT_TRUE(Abort(request, response).ok());
  EXPECT_THAT(response.found_request_ids(), ElementsAre("doomed"));
  EXPECT_THAT(response.unknown_request_ids(), ElementsAre("nobody"));
  EXPECT_EQ(response.aborted(), 1u);
  worker_.AwaitRunning("a", 1);
  const absl::Status status = doomed.End();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("maintenance at noon"));
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_ABORTED);
  EXPECT_EQ(DetailsOf(status).metadata.at("request_id"), "doomed");
  EXPECT_FALSE(doomed.part.has_finish());
  EXPECT_TRUE(other.End().ok());
}

TEST_F(AdminTest, AbortIsCheckedAtItsLimits) {
  v1::AbortResponse response;
  v1::AbortRequest request;
  EXPECT_EQ(Abort(request, response).code(), Code::kInvalidArgument);
  for (int i = 0; i < kMaxAbortIds; ++i) {
    request.add_request_ids(absl::StrCat("id ", i));
  }
  request.set_request_ids(0, std::string(kMaxRequestIdBytes, 'i'));
  request.set_reason(std::string(kMaxAbortReasonBytes, 'r'));
  EXPECT_TRUE(Abort(request, response).ok());
  EXPECT_EQ(response.unknown_request_ids_size(), kMaxAbortIds);

  const auto refused = [&](const v1::AbortRequest& bad, const char* field) {
    const absl::Status status = Abort(bad, response);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  };
  v1::AbortRequest bad = request;
  bad.add_request_ids("one more");
  refused(bad, "request_ids");
  bad = request;
  bad.set_request_ids(0, std::string(kMaxRequestIdBytes + 1, 'i'));
  refused(bad, "request_ids");
  bad.set_request_ids(0, "");
  refused(bad, "request_ids");
  bad = request;
  bad.set_all(true);
  refused(bad, "request_ids");
  bad = request;
  bad.set_reason(std::string(kMaxAbortReasonBytes + 1, 'r'));
  refused(bad, "reason");
  bad.set_reason("a\nb");
  refused(bad, "reason");
}

// Takes nothing, so that its sequence keeps its slot.
class StuckSink final : public worker::TokenSink {
 public:
  explicit StuckSink(std::atomic<int>& n_aborted) : n_aborted_(n_aborted) {}
  bool OnOutput(worker::StepOutput&) override { return false; }
  void OnEnd(const absl::Status& status, const worker::FinishInfo&) override {
    n_aborted_ += absl::IsAborted(status) ? 1 : 0;
  }
  bool Abandoned() const override { return false; }

 private:
  std::atomic<int>& n_aborted_;
};

TEST_F(AdminTest, ListsAreCutAtTheirLimitAndCountsAreNot) {
  grpc::ClientContext context;
  v1::LoadModelRequest load;
  load.set_model("a");
  load.mutable_options()->set_n_ctx(16);
  load.mutable_options()->set_n_slots(200);
  const auto reader = worker_.models->LoadModel(&context, load);
  v1::LoadModelResponse progress;
  while (reader->Read(&progress)) {
  }
  ASSERT_TRUE(reader->Finish().ok());
  std::atomic<int> n_aborted = 0;
  const auto submit = [&](int number) {
    worker_.registry->Visit([&](const LoadedModel& model, ModelState) {
      worker::GenerateOptions options;
      options.prompt_ids = {5};
      options.request_id = absl::StrCat(number);
      options.sampling.temperature = 0;
      absl::Status status;
      do {  // the queue is full until they get their slots
        status = model.engine->Submit(options,
                                      std::make_shared<StuckSink>(n_aborted));
      } while (absl::IsResourceExhausted(status));
      ASSERT_TRUE(status.ok()) << status;
    });
  };
  const int limit = static_cast<int>(kMaxListedRequests);
  for (int i = 1; i <= limit; ++i) submit(i);
  EXPECT_EQ(Load().models(0).requests_size(), limit);
  submit(limit + 1);
  const v1::GetLoadResponse full = Load();
  const v1::ModelActivity& model = full.models(0);
  EXPECT_EQ(model.requests_size(), limit);
  EXPECT_EQ(model.running() + model.waiting(), kMaxListedRequests + 1);
  EXPECT_EQ(model.requests(0).request_id(), "1");

  v1::AbortRequest request;
  request.set_all(true);
  v1::AbortResponse response;
  ASSERT_TRUE(Abort(request, response).ok());
  EXPECT_EQ(response.aborted(), kMaxListedRequests + 1);
  EXPECT_EQ(response.found_request_ids_size(), kMaxAbortIds);
  EXPECT_THAT(response.unknown_request_ids(), IsEmpty());
  while (n_aborted <= limit) std::this_thread::yield();
}

TEST_F(AdminTest, ADrainAnswersAtOnceWithWhatIsInFlight) {
  ASSERT_TRUE(worker_.Load("a").ok());
  ASSERT_TRUE(worker_.Load("b").ok());
  Stream stream(worker_, "last");
  AwaitCalls(1);
  v1::DrainResponse response;
  for (int i = 0; i < 2; ++i) {  // again is no error
    response.Clear();
    ASSERT_TRUE(Drain(/*wait=*/false, response).ok());
    EXPECT_EQ(response.running_calls(), 1u);
    ASSERT_EQ(response.models_size(), 1) << "b is idle";
    EXPECT_EQ(response.models(0).requests(0).request_id(), "last");
  }
  EXPECT_TRUE(Load().draining());
  const absl::Status status = NewCall();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_DRAINING);
  EXPECT_TRUE(DetailsOf(status).retry_after.has_value());
  EXPECT_EQ(FromGrpc(worker_.Load("a")).code(), Code::kUnavailable);
  EXPECT_TRUE(stream.End().ok());
  EXPECT_TRUE(stream.part.has_finish());
}

TEST_F(AdminTest, ADrainThatWaitsAnswersWhenTheLastCallHasEnded) {
  ASSERT_TRUE(worker_.Load("a").ok());
  Stream stream(worker_, "last");
  v1::DrainResponse response;
  EXPECT_EQ(DrainWithin(absl::Milliseconds(50), /*wait=*/true, response).code(),
            Code::kDeadlineExceeded);
  EXPECT_TRUE(Load().draining()) << "the drain goes on";
  std::atomic<bool> is_over = false;
  std::thread waiter([&] {
    EXPECT_TRUE(Drain(/*wait=*/true, response).ok());
    EXPECT_TRUE(is_over) << "a call was still running";
  });
  AwaitCalls(1);
  is_over = true;
  EXPECT_TRUE(stream.End().ok());
  waiter.join();
  EXPECT_TRUE(response.has_running_calls());
  EXPECT_EQ(response.running_calls(), 0u);
  EXPECT_EQ(response.models_size(), 0);
  EXPECT_TRUE(Drain(/*wait=*/true, response).ok()) << "idle: at once";
}

TEST_F(AdminTest, ADrainedServerStillShutsDown) {
  v1::DrainResponse response;
  ASSERT_TRUE(Drain(/*wait=*/true, response).ok());
  bool has_aborted = false;
  worker_.server->Drain([&] { has_aborted = true; });
  EXPECT_FALSE(has_aborted);
  grpc::ClientContext context;
  v1::GetLoadResponse load;
  EXPECT_EQ(worker_.admin->GetLoad(&context, {}, &load).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace plimsoll::services
