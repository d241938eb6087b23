// Limits of connections and of unary calls, and where reflection is served,
// over real sockets.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/server/call.h"
#include "services/server/server.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kShort = absl::Milliseconds(200);
constexpr absl::Duration kPatience = absl::Seconds(60);

std::chrono::system_clock::time_point In(absl::Duration time) {
  return absl::ToChronoTime(absl::Now() + time);
}

// A planner, and a client with one connection.
class EdgeLimitsTest : public ::testing::Test {
 protected:
  void Start(const ServerOptions& options) {
    auto server = Server::Start(options, {service_.get()}, gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string& address = server_->address();
    channel_ = grpc::CreateChannel(
        absl::StrCat("127.0.0.1", address.substr(address.rfind(':'))),
        grpc::InsecureChannelCredentials());
    stub_ = v1::PlannerService::NewStub(channel_);
  }

  grpc::Status List() {
    grpc::ClientContext context;
    v1::ListDevicesResponse response;
    return stub_->ListDevices(&context, {}, &response);
  }
  // Whether the connection is left within a time.
  bool LeavesReady(absl::Duration time) {
    return channel_->WaitForStateChange(GRPC_CHANNEL_READY, In(time));
  }
  grpc::Status Reflect() {
    using grpc::reflection::v1::ServerReflection;
    const auto stub = ServerReflection::NewStub(channel_);
    grpc::ClientContext context;
    const auto stream = stub->ServerReflectionInfo(&context);
    stream->WritesDone();
    return stream->Finish();
  }

  CallGate gate_;
  Ledger ledger_{BootTime};
  Planner planner_{{}, ledger_};
  std::unique_ptr<WorkPool> pool_ = *WorkPool::Start();
  std::unique_ptr<grpc::Service> service_ = NewPlannerService(
      {.planner = planner_, .ledger = ledger_, .gate = gate_, .pool = *pool_});
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PlannerService::Stub> stub_;
};

// A stream that goes on until somebody ends it.
class Watch {
 public:
  explicit Watch(v1::PlannerService::Stub& stub)
      : stream_(stub.WatchDevices(&context_, v1::WatchDevicesRequest())) {
    v1::WatchDevicesResponse response;
    EXPECT_TRUE(stream_->Read(&response));
  }

  void Cancel() { context_.TryCancel(); }
  grpc::StatusCode End() {
    v1::WatchDevicesResponse response;
    while (stream_->Read(&response)) continue;
    return stream_->Finish().error_code();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchDevicesResponse>> stream_;
};

TEST_F(EdgeLimitsTest, AConnectionWithoutACallEndsWhenItIsIdle) {
  Start({.connections = {.idle = kShort}});
  ASSERT_TRUE(List().ok());
  EXPECT_TRUE(LeavesReady(kPatience));
  EXPECT_TRUE(List().ok());  // by a new connection
}

TEST_F(EdgeLimitsTest, AConnectionWithACallIsNotIdle) {
  Start({.connections = {.idle = kShort}});
  Watch watch(*stub_);
  EXPECT_FALSE(LeavesReady(4 * kShort));
  watch.Cancel();
  EXPECT_EQ(watch.End(), grpc::StatusCode::CANCELLED);
}

TEST_F(EdgeLimitsTest, ACallOutlivesItsConnectionsAgeByTheGraceOnly) {
  Start({.connections = {.age = kShort, .age_grace = kShort}});
  Watch watch(*stub_);
  EXPECT_EQ(watch.End(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(List().ok());
}

TEST_F(EdgeLimitsTest, WithinTheGraceACallGoesOnAndOthersGetANewConnection) {
  Start({.connections = {.age = kShort, .age_grace = absl::Hours(1)}});
  Watch watch(*stub_);
  EXPECT_TRUE(LeavesReady(kPatience));
  EXPECT_TRUE(List().ok());
  watch.Cancel();
  EXPECT_EQ(watch.End(), grpc::StatusCode::CANCELLED);
}

TEST_F(EdgeLimitsTest, ReflectionIsOnAtLoopback) {
  Start({});
  EXPECT_TRUE(Reflect().ok());
}

TEST_F(EdgeLimitsTest, ReflectionIsOffBeyondLoopbackUnlessItIsAskedFor) {
  ServerOptions options{.listen = "0.0.0.0:0", .allow_insecure = true};
  Start(options);
  const grpc::Status refused = Reflect();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--reflection"));
  EXPECT_TRUE(List().ok());
  server_ = nullptr;
  options.has_reflection = true;
  Start(options);
  EXPECT_TRUE(Reflect().ok());
}

// Answers Plan by work that lasts for as long as it may, and Renew at once.
class EndlessService final : public v1::PlannerService::CallbackService {
 public:
  EndlessService(CallGate& gate, WorkPool& pool, absl::Duration most)
      : limits_{gate, messages_, kReaderTimeout, most}, pool_(pool) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request,
                                 v1::PlanResponse* response) override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kLong,
                         .answer = [](StopCheck stop, ByteBudget::Share&) {
                           while (true) {
                             absl::Status status = stop();
                             if (!status.ok()) return status;
                           }
                         }});
  }
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* response) override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [](StopCheck stop, ByteBudget::Share&) { return stop(); }});
  }

 private:
  ByteBudget messages_{8 << 20};
  const CallLimits limits_;
  WorkPool& pool_;
};

TEST(UnaryDeadlineTest, ACallWithoutADeadlineHasTheServers) {
  CallGate gate;
  const std::unique_ptr<WorkPool> pool = *WorkPool::Start();
  EndlessService service(gate, *pool, kShort);
  const auto server = *Server::Start({}, {&service}, gate);
  const auto stub = v1::PlannerService::NewStub(grpc::CreateChannel(
      server->address(), grpc::InsecureChannelCredentials()));
  for (const bool has_longer : {false, true}) {
    grpc::ClientContext context;
    if (has_longer) context.set_deadline(In(absl::Hours(1)));
    v1::PlanResponse response;
    EXPECT_EQ(stub->Plan(&context, {}, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  grpc::ClientContext context;
  v1::RenewResponse response;
  EXPECT_TRUE(stub->Renew(&context, {}, &response).ok());
}

}  // namespace
}  // namespace plimsoll::services
