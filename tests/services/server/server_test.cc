#include "services/server/server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

TEST(CheckListenTest, OnlyLoopbackUnlessTheUserInsists) {
  for (const char* address :
       {"127.0.0.1:0", "127.9.9.9:80", "localhost:0", "[::1]:0"}) {
    EXPECT_TRUE(CheckListen({.listen = address}).ok()) << address;
  }
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.0.0.1:80",
                              "example.org:80", "127.0.0.1.example.org:1"}) {
    EXPECT_EQ(CheckListen({.listen = address}).code(),
              Code::kFailedPrecondition)
        << address;
    EXPECT_TRUE(CheckListen({.listen = address, .allow_insecure = true}).ok());
  }
}

TEST(RereadTest, WithoutMemoryTheServerGoesOn) {
  ::testing::internal::CaptureStderr();
  Reread([] { throw std::bad_alloc(); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("the settings were not read again"));
}

TEST(CheckListenTest, WhatIsNoAddressIsRefused) {
  for (const char* address :
       {"", ":", ":80", "localhost", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:65536", "127.0.0.1:-1"}) {
    EXPECT_EQ(CheckListen({.listen = address}).code(), Code::kInvalidArgument)
        << address;
  }
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = Server::Start({.drain_timeout = absl::Seconds(5)},
                                {service_.get()}, gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::PlannerService::NewStub(grpc::CreateChannel(
        server_->address(), grpc::InsecureChannelCredentials()));
  }

  grpc::Status List(grpc::ClientContext& context) {
    v1::ListDevicesResponse response;
    return stub_->ListDevices(&context, {}, &response);
  }

  static std::string EchoedId(const grpc::ClientContext& context) {
    const auto& metadata = context.GetServerInitialMetadata();
    const auto found = metadata.find("x-request-id");
    if (found == metadata.end()) return "";
    return std::string(found->second.data(), found->second.size());
  }

  grpc::Status PlanWithHeaderOf(size_t bytes) {
    v1::PlanRequest request;
    request.mutable_source()->mutable_header()->set_gguf(
        std::string(bytes, 'x'));
    grpc::ClientContext context;
    v1::PlanResponse response;
    return stub_->Plan(&context, request, &response);
  }

  CallGate gate_;
  Ledger ledger_{BootTime};
  Planner planner_{{}, ledger_};
  std::unique_ptr<WorkPool> pool_ = *WorkPool::Start();
  std::unique_ptr<grpc::Service> service_ = NewPlannerService(
      {.planner = planner_, .ledger = ledger_, .gate = gate_, .pool = *pool_});
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::PlannerService::Stub> stub_;
};

TEST_F(ServerTest, PortZeroBecomesARealPort) {
  EXPECT_THAT(server_->address(), ::testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(server_->address(), "127.0.0.1:0");
}

TEST_F(ServerTest, OneAddressHasOneServer) {
  Ledger ledger(BootTime);
  Planner planner({}, ledger);
  CallGate gate;
  const auto service = NewPlannerService(
      {.planner = planner, .ledger = ledger, .gate = gate, .pool = *pool_});
  EXPECT_EQ(Server::Start({.listen = server_->address()}, {service.get()}, gate)
                .status()
                .code(),
            Code::kUnavailable);
}

TEST_F(ServerTest, ARequestIdComesBack) {
  grpc::ClientContext context;
  const std::string longest(128, 'i');
  context.AddMetadata("x-request-id", longest);
  ASSERT_TRUE(List(context).ok());
  EXPECT_EQ(EchoedId(context), longest);
}

TEST_F(ServerTest, ABadOrMissingRequestIdIsReplaced) {
  grpc::ClientContext none;
  ASSERT_TRUE(List(none).ok());
  EXPECT_EQ(EchoedId(none).size(), 32u);
  for (const std::string& bad : {std::string(129, 'i'), std::string("a b")}) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", bad);
    ASSERT_TRUE(List(context).ok());
    EXPECT_NE(EchoedId(context), bad);
    EXPECT_EQ(EchoedId(context).size(), 32u);
  }
}

TEST_F(ServerTest, ARefusalHasNoInitialMetadataSoThatItMayBeRepeated) {
  gate_.Close();
  grpc::ClientContext context;
  EXPECT_EQ(List(context).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(context.GetServerInitialMetadata(), ::testing::IsEmpty());
}

TEST_F(ServerTest, AMessageAboveFourMiBIsRefused) {
  constexpr size_t kFraming = 64;  // bytes of the message around the header
  EXPECT_EQ(PlanWithHeaderOf(kMaxMessageBytes - kFraming).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);  // it arrives
  EXPECT_EQ(PlanWithHeaderOf(kMaxMessageBytes).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, MetadataAboveSixteenKiBIsRefused) {
  grpc::ClientContext fits;
  fits.AddMetadata("x-filler", std::string(15 << 10, 'f'));
  EXPECT_TRUE(List(fits).ok());
  grpc::ClientContext too_long;
  too_long.AddMetadata("x-filler", std::string(17 << 10, 'f'));
  EXPECT_FALSE(List(too_long).ok());
  // That connection may be gone; the server lives.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  stub_ = v1::PlannerService::NewStub(grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext after;
  const grpc::Status status = List(after);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServerTest, ACloseGateRefusesWithARetryDelay) {
  gate_.Close();
  grpc::ClientContext context;
  const absl::Status status = FromGrpc(List(context));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_DRAINING);
  EXPECT_EQ(DetailsOf(status).retry_after, absl::ZeroDuration());
}

TEST_F(ServerTest, ADrainWithoutCallsAbortsNothing) {
  bool has_aborted = false;
  server_->Drain([&] { has_aborted = true; });
  EXPECT_FALSE(has_aborted);
  grpc::ClientContext context;
  EXPECT_EQ(List(context).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(CallGateTest, ADrainWaitsForTheLastPass) {
  CallGate gate;
  {
    const absl::StatusOr<CallGate::Pass> pass = gate.Enter();
    ASSERT_TRUE(pass.ok());
    gate.Close();
    EXPECT_FALSE(gate.AwaitIdle(absl::ZeroDuration()));
  }
  EXPECT_TRUE(gate.AwaitIdle(absl::ZeroDuration()));
  EXPECT_FALSE(gate.Enter().ok());
}

TEST(CallGateTest, TellsOnceWhenTheLastCallHasEnded) {
  CallGate gate;
  int n_told = 0;
  gate.NotifyWhenIdle([&] { ++n_told; });
  EXPECT_EQ(n_told, 1) << "no call runs: at once";
  {
    const absl::StatusOr<CallGate::Pass> first = gate.Enter();
    {
      const absl::StatusOr<CallGate::Pass> second = gate.Enter();
      gate.NotifyWhenIdle([&] { ++n_told; });
      gate.Forget(gate.NotifyWhenIdle([&] { n_told += 100; }));
      EXPECT_EQ(gate.running(), 2);
    }
    EXPECT_EQ(n_told, 1);
  }
  EXPECT_EQ(n_told, 2);
  EXPECT_EQ(gate.running(), 0);
  { const absl::StatusOr<CallGate::Pass> next = gate.Enter(); }
  EXPECT_EQ(n_told, 2);
}

TEST(CallGateTest, EveryCloseIsHeardByItsListener) {
  CallGate gate;
  int n_heard = 0;
  gate.SetCloseListener([&] { n_heard += gate.is_closed() ? 1 : 100; });
  gate.Close();
  gate.Close();
  EXPECT_EQ(n_heard, 2);
  gate.SetCloseListener(nullptr);
  gate.Close();
  EXPECT_EQ(n_heard, 2);
}

TEST(CallGateTest, AMovedPassCountsOnce) {
  CallGate gate;
  CallGate::Pass pass = *gate.Enter();
  {
    const CallGate::Pass moved = std::move(pass);
    EXPECT_FALSE(gate.AwaitIdle(absl::ZeroDuration()));
  }
  EXPECT_TRUE(gate.AwaitIdle(absl::ZeroDuration()));
}

}  // namespace
}  // namespace plimsoll::services
