// Calls that are answered from the pool, over a real socket.
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/server/call.h"
#include "services/server/server.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Answers Plan by `work` on the pool, and Renew at once.
class PooledService final : public v1::PlannerService::CallbackService {
 public:
  using Answer = std::function<absl::Status(StopCheck, v1::PlanResponse&)>;

  PooledService(CallGate& gate, WorkPool& pool, Answer answer)
      : limits_{gate, messages_, kReaderTimeout},
        pool_(pool),
        answer_(std::move(answer)) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request,
                                 v1::PlanResponse* response) override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [this, response](StopCheck stop, ByteBudget::Share&) {
           return answer_(stop, *response);
         }});
  }
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* response) override {
    return AnswerUnary(context, limits_, {*request, *response},
                       [] { return absl::OkStatus(); });
  }

  ByteBudget& messages() { return messages_; }

 private:
  ByteBudget messages_{8 << 20};
  const CallLimits limits_;
  WorkPool& pool_;
  const Answer answer_;
};

// One call of a client, which does not wait for its end.
class ClientCall {
 public:
  explicit ClientCall(v1::PlannerService::Stub& stub) : ClientCall(stub, "") {}
  ClientCall(v1::PlannerService::Stub& stub, const std::string& model) {
    request_.mutable_source()->set_model(model);
    stub.async()->Plan(&context_, &request_, &response_,
                       [this](const grpc::Status& status) {
                         status_ = FromGrpc(status);
                         done_.Notify();
                       });
  }
  ~ClientCall() { done_.WaitForNotification(); }

  void Cancel() { context_.TryCancel(); }
  const absl::Status& status() {
    done_.WaitForNotification();
    return status_;
  }
  const v1::PlanResponse& response() const { return response_; }

 private:
  grpc::ClientContext context_;
  v1::PlanRequest request_;
  v1::PlanResponse response_;
  absl::Status status_;
  absl::Notification done_;
};

class PooledCallTest : public ::testing::Test {
 protected:
  PooledCallTest()
      : pool_(
            *WorkPool::Start({.n_threads = 1, .start = WorkPool::StartThread})),
        service_(gate_, *pool_,
                 [this](StopCheck stop, v1::PlanResponse& response) {
                   return Answer(stop, response);
                 }),
        server_(*Server::Start(ServerOptions{}, {&service_}, gate_)),
        stub_(v1::PlannerService::NewStub(grpc::CreateChannel(
            server_->address(), grpc::InsecureChannelCredentials()))) {}
  ~PooledCallTest() override { GoOn(); }

  // Works until it may go on or must stop.
  absl::Status Answer(StopCheck stop, v1::PlanResponse& response) {
    if (++n_started_ == 1) started_.Notify();
    while (!go_on_.HasBeenNotified()) {
      if (absl::Status status = stop(); !status.ok()) {
        absl::MutexLock lock(&mu_);
        stopped_by_ = status;
        return status;
      }
      std::this_thread::yield();
    }
    response.mutable_plan()->set_n_ctx(7);
    return absl::OkStatus();
  }
  void GoOn() {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
  }
  void AwaitStart() { started_.WaitForNotification(); }
  absl::Status StoppedBy() {
    absl::MutexLock lock(&mu_);
    return stopped_by_;
  }
  absl::Status Renew() {
    grpc::ClientContext context;
    v1::RenewResponse response;
    return FromGrpc(stub_->Renew(&context, v1::RenewRequest(), &response));
  }

  absl::Notification started_;  // the first answer
  absl::Notification go_on_;
  absl::Mutex mu_;
  absl::Status stopped_by_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> n_started_ = 0;
  CallGate gate_;
  std::unique_ptr<WorkPool> pool_;
  PooledService service_;
  std::unique_ptr<Server> server_;
  const std::unique_ptr<v1::PlannerService::Stub> stub_;
};

TEST_F(PooledCallTest, AnswersAndLetsOtherCallsPass) {
  ClientCall call(*stub_);
  AwaitStart();
  EXPECT_TRUE(Renew().ok());
  EXPECT_EQ(gate_.running(), 1);
  GoOn();
  EXPECT_TRUE(call.status().ok());
  EXPECT_EQ(call.response().plan().n_ctx(), 7u);
  EXPECT_TRUE(gate_.AwaitIdle(kPatience));
}

TEST_F(PooledCallTest, ACallThatIsCancelledWhileItWaitsNeverStarts) {
  ClientCall running(*stub_);
  AwaitStart();
  ClientCall waiting(*stub_);
  ASSERT_TRUE(pool_->Await(1, 1, kPatience));
  waiting.Cancel();
  ASSERT_TRUE(pool_->Await(1, 0, kPatience));
  EXPECT_EQ(waiting.status().code(), Code::kCancelled);
  GoOn();
  EXPECT_TRUE(running.status().ok());
  EXPECT_EQ(n_started_, 1);
}

TEST_F(PooledCallTest, ACallThatIsCancelledWhileItRunsStops) {
  ClientCall call(*stub_);
  AwaitStart();
  call.Cancel();
  EXPECT_TRUE(pool_->Await(0, 0, kPatience));
  EXPECT_EQ(call.status().code(), Code::kCancelled);
  EXPECT_EQ(StoppedBy().code(), Code::kCancelled);
  EXPECT_TRUE(gate_.AwaitIdle(kPatience));
}

TEST_F(PooledCallTest, ACallStopsAtItsDeadline) {
  grpc::ClientContext context;
  context.set_deadline(
      absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
  v1::PlanResponse response;
  const absl::Status status =
      FromGrpc(stub_->Plan(&context, v1::PlanRequest(), &response));
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(pool_->Await(0, 0, kPatience));
  EXPECT_TRUE(gate_.AwaitIdle(kPatience));
}

TEST_F(PooledCallTest, ARequestThatWaitsIsHeldInMemory) {
  ClientCall running(*stub_);
  AwaitStart();
  const std::string name(1 << 20, 'a');
  ClientCall waiting(*stub_, name);
  ASSERT_TRUE(pool_->Await(1, 1, kPatience));
  ByteBudget& messages = service_.messages();
  EXPECT_GE(messages.traffic().held_bytes, 1 << 20);
  {
    const auto most = messages.Take("one", 5 << 20);
    const auto rest = messages.Take("another", 1 << 20);
    EXPECT_TRUE(most.ok() && rest.ok());
    ClientCall refused(*stub_, name);
    EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
    EXPECT_EQ(DetailsOf(refused.status()).reason,
              v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
    EXPECT_TRUE(Renew().ok());
  }
  GoOn();
  EXPECT_TRUE(running.status().ok());
  EXPECT_TRUE(waiting.status().ok());
}

TEST_F(PooledCallTest, AFullPoolRefusesAndOtherCallsPass) {
  std::vector<std::unique_ptr<ClientCall>> calls;
  calls.push_back(std::make_unique<ClientCall>(*stub_));
  AwaitStart();
  for (size_t i = 0; i < WorkPool::kMaxQueued; ++i) {
    calls.push_back(std::make_unique<ClientCall>(*stub_));
  }
  ASSERT_TRUE(pool_->Await(1, WorkPool::kMaxQueued, kPatience));
  ClientCall refused(*stub_);
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(DetailsOf(refused.status()).reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_EQ(DetailsOf(refused.status()).retry_after, WorkPool::kRetryDelay);
  EXPECT_TRUE(Renew().ok());
  GoOn();
  for (const auto& call : calls) EXPECT_TRUE(call->status().ok());
}

TEST_F(PooledCallTest, ADrainWaitsForCallsThatWait) {
  ClientCall running(*stub_);
  AwaitStart();
  ClientCall waiting(*stub_);
  ASSERT_TRUE(pool_->Await(1, 1, kPatience));
  gate_.Close();
  EXPECT_EQ(Renew().code(), Code::kUnavailable);
  GoOn();
  server_->Drain([] { ADD_FAILURE() << "nothing had to be aborted"; });
  EXPECT_TRUE(running.status().ok());
  EXPECT_TRUE(waiting.status().ok());
}

TEST_F(PooledCallTest, AnAbortFinishesEveryCall) {
  ClientCall running(*stub_);
  AwaitStart();
  ClientCall waiting(*stub_);
  ASSERT_TRUE(pool_->Await(1, 1, kPatience));
  pool_->Abort();
  EXPECT_EQ(running.status().code(), Code::kUnavailable);
  EXPECT_EQ(waiting.status().code(), Code::kUnavailable);
  EXPECT_TRUE(gate_.AwaitIdle(kPatience));
}

TEST_F(PooledCallTest, AServerThatEndsFinishesEveryCall) {
  ClientCall running(*stub_);
  AwaitStart();
  ClientCall waiting(*stub_);
  ASSERT_TRUE(pool_->Await(1, 1, kPatience));
  server_.reset();
  EXPECT_FALSE(running.status().ok());
  EXPECT_FALSE(waiting.status().ok());
  // Either call may be cancelled first, so the second may have started.
  EXPECT_TRUE(pool_->Await(0, 0, kPatience));
  EXPECT_TRUE(gate_.AwaitIdle(kPatience));
}

}  // namespace
}  // namespace plimsoll::services
