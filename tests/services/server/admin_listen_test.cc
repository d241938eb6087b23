// A server with --admin-listen: which methods are served at which address, and
// to whom.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/dev_certificates.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/server/access/token_list.h"
#include "services/server/credentials.h"
#include "services/server/server.h"
#include "services/wire/to_proto.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Code = absl::StatusCode;

class AdminListenTest : public ::testing::Test {
 protected:
  void Start(ServerOptions options) {
    auto server = Server::Start(options, {service_.get()}, gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ordinary_ = server_->address();
    admin_ = server_->admin_address();
  }

  std::shared_ptr<grpc::Channel> Channel(const ClientSecurity& security,
                                         const std::string& address) const {
    return grpc::CreateChannel(address,
                               NewChannelCredentials(security, address));
  }
  // Changes nothing of the planner.
  grpc::Status List(const std::string& address) const {
    return ListAs({}, address);
  }
  grpc::Status ListAs(const ClientSecurity& security,
                      const std::string& address) const {
    const auto stub = v1::PlannerService::NewStub(Channel(security, address));
    grpc::ClientContext context;
    v1::ListDevicesResponse response;
    return stub->ListDevices(&context, {}, &response);
  }
  // A change: NOT_FOUND comes from the planner itself.
  grpc::Status Release(const std::string& address) const {
    return ReleaseAs({}, address);
  }
  grpc::Status ReleaseAs(const ClientSecurity& security,
                         const std::string& address) const {
    const auto stub = v1::PlannerService::NewStub(Channel(security, address));
    grpc::ClientContext context;
    v1::ReleaseRequest request;
    request.set_lease_id("none");
    v1::ReleaseResponse response;
    return stub->Release(&context, request, &response);
  }
  StatusCode Reflect(const std::string& address) const {
    using grpc::reflection::v1::ServerReflection;
    const auto stub = ServerReflection::NewStub(Channel({}, address));
    grpc::ClientContext context;
    const auto stream = stub->ServerReflectionInfo(&context);
    stream->WritesDone();
    return stream->Finish().error_code();
  }
  std::string Socket() const { return "unix:" + folder_.File("admin"); }
  std::string Me(const std::string& rights) const {
    return "uid:" + std::to_string(geteuid()) + "=" + rights;
  }

  const testing::TemporaryFolder folder_;
  CallGate gate_;
  Ledger ledger_{BootTime};
  Planner planner_{{}, ledger_};
  std::unique_ptr<WorkPool> pool_ = *WorkPool::Start();
  std::unique_ptr<grpc::Service> service_ = NewPlannerService(
      {.planner = planner_, .ledger = ledger_, .gate = gate_, .pool = *pool_});
  std::unique_ptr<Server> server_;
  std::string ordinary_;
  std::string admin_;
};

TEST_F(AdminListenTest, WithoutItEverythingIsServedAtOneAddress) {
  Start({});
  EXPECT_EQ(admin_, "");
  EXPECT_TRUE(List(ordinary_).ok());
  EXPECT_EQ(Release(ordinary_).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(AdminListenTest, ChangesAreServedThereOnly) {
  Start({.admin_listen = "127.0.0.1:0"});
  EXPECT_THAT(admin_, StartsWith("127.0.0.1:"));
  EXPECT_NE(admin_, ordinary_);
  EXPECT_EQ(Release(admin_).error_code(), StatusCode::NOT_FOUND);
  const grpc::Status refused = Release(ordinary_);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--admin-listen"));
  EXPECT_THAT(refused.error_message(), ::testing::Not(HasSubstr(admin_)));
  EXPECT_TRUE(List(ordinary_).ok());
  // A worker calls one address of its planner.
  EXPECT_TRUE(List(admin_).ok());
}

TEST_F(AdminListenTest, WhatElseThereIsIsNotServedThere) {
  Start({.admin_listen = "127.0.0.1:0"});
  EXPECT_EQ(Reflect(ordinary_), StatusCode::OK);
  EXPECT_EQ(Reflect(admin_), StatusCode::PERMISSION_DENIED);
}

TEST_F(AdminListenTest, ASocketKnowsWhoCallsAndLoopbackIsOpen) {
  Start({.admin_listen = Socket()});
  EXPECT_EQ(admin_, Socket());
  EXPECT_TRUE(List(ordinary_).ok());
  EXPECT_EQ(Release(ordinary_).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Release(admin_).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(AdminListenTest, AGrantOfTheSocketDoesNotCloseLoopback) {
  Start({.admin_listen = Socket(), .grants = {Me("viewer")}});
  EXPECT_TRUE(List(ordinary_).ok());
  EXPECT_TRUE(List(admin_).ok());
  const grpc::Status refused = Release(admin_);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("role viewer"));
}

TEST_F(AdminListenTest, AWorkerOfAGrantHasLeasesOfItsOwn) {
  Start({.admin_listen = Socket(), .grants = {Me("worker")}});
  const auto stub = v1::PlannerService::NewStub(Channel({}, admin_));
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.id = "cpu";
  profile.total_bytes = 1'000;
  profile.free_bytes = 1'000;
  v1::RegisterDeviceRequest device;
  *device.mutable_profile() = ToProto(profile);
  device.set_holder("h");
  grpc::ClientContext first;
  v1::RegisterDeviceResponse registered;
  ASSERT_TRUE(stub->RegisterDevice(&first, device, &registered).ok());
  v1::ReserveRequest request;
  request.set_request_id("r");
  request.set_device_id("cpu");
  request.set_holder("host/1");
  request.set_bytes(100);
  grpc::ClientContext second;
  v1::ReserveResponse reserved;
  const grpc::Status status = stub->Reserve(&second, request, &reserved);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(reserved.lease().holder(), StartsWith("uid:"));
}

TEST_F(AdminListenTest, TokensAndTlsAreThoseOfBothAddresses) {
  const cli::CertificatePair ca = *cli::NewDevCa();
  const cli::CertificatePair pair = *cli::NewDevServer(ca, {"127.0.0.1"});
  std::ofstream(folder_.File("ca.pem")) << ca.certificate;
  std::ofstream(folder_.File("server.pem")) << pair.certificate;
  std::ofstream(folder_.File("server.key")) << pair.key;
  std::ofstream(folder_.File("tokens.json"))
      << FormatTokenList({{"v", HashToken("viewer"), "", Role::kViewer},
                          {"a", HashToken("admin"), "", Role::kAdmin}});
  Start({.admin_listen = "127.0.0.1:0",
         .tls = {folder_.File("server.pem"), folder_.File("server.key")},
         .tokens = folder_.File("tokens.json")});
  const std::string trusted = folder_.File("ca.pem");
  const ClientSecurity admin = {.ca = trusted, .token = "admin"};
  const ClientSecurity viewer = {.ca = trusted, .token = "viewer"};
  EXPECT_EQ(ReleaseAs(admin, admin_).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(ReleaseAs(viewer, admin_).error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReleaseAs({.ca = trusted}, admin_).error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Release(admin_).error_code(), StatusCode::UNAVAILABLE);
  // Not even an administrator changes anything at the other address.
  EXPECT_EQ(ReleaseAs(admin, ordinary_).error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(ListAs(viewer, ordinary_).ok());
}

TEST_F(AdminListenTest, BothAddressesEndTogether) {
  Start({.admin_listen = Socket()});
  server_->Drain([] {});
  EXPECT_EQ(List(ordinary_).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(List(admin_).error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(AdminListenTest, AnAddressThatIsTakenStartsNoServer) {
  Start({.admin_listen = "127.0.0.1:0"});
  CallGate gate;
  for (const ServerOptions& options :
       {ServerOptions{.admin_listen = admin_},
        ServerOptions{.listen = ordinary_, .admin_listen = "127.0.0.1:0"}}) {
    EXPECT_EQ(Server::Start(options, {service_.get()}, gate).status().code(),
              Code::kUnavailable);
  }
}

TEST(CheckAdminListenTest, TheRuleForAddressesHoldsForItToo) {
  const auto check = [](ServerOptions options) {
    return CheckListen(options).code();
  };
  EXPECT_EQ(check({.admin_listen = "127.0.0.1:0"}), Code::kOk);
  EXPECT_EQ(check({.admin_listen = "unix:/run/a"}), Code::kOk);
  EXPECT_EQ(check({.admin_listen = "[::]:0"}), Code::kFailedPrecondition);
  EXPECT_EQ(check({.admin_listen = "[::]:0", .allow_insecure = true}),
            Code::kOk);
  EXPECT_EQ(check({.admin_listen = "7072"}), Code::kInvalidArgument);
  EXPECT_EQ(check({.admin_listen = "unix:a"}), Code::kInvalidArgument);
  const absl::Status status = CheckListen({.admin_listen = "7072"});
  EXPECT_THAT(std::string(status.message()), HasSubstr("--admin-listen"));
}

TEST(CheckAdminListenTest, TwoAddressesAreTwo) {
  const auto check = [](ServerOptions options) {
    return CheckListen(options).code();
  };
  EXPECT_EQ(check({.listen = "127.0.0.1:7", .admin_listen = "127.0.0.1:7"}),
            Code::kInvalidArgument);
  EXPECT_EQ(check({.listen = "unix:/a", .admin_listen = "unix:/a"}),
            Code::kInvalidArgument);
  EXPECT_EQ(check({.listen = "127.0.0.1:0", .admin_listen = "127.0.0.1:0"}),
            Code::kOk);
}

TEST(CheckAdminListenTest, GrantsAndTlsNeedAnAddressOfTheirKind) {
  const auto check = [](ServerOptions options) {
    return CheckListen(options).code();
  };
  EXPECT_EQ(check({.admin_listen = "unix:/a", .grants = {"uid:1=viewer"}}),
            Code::kOk);
  EXPECT_EQ(check({.admin_listen = "[::1]:0", .grants = {"uid:1=viewer"}}),
            Code::kInvalidArgument);
  const ServerTls no_files = {"/no/cert", "/no/key"};
  const absl::Status status = CheckListen(
      {.listen = "unix:/a", .admin_listen = "unix:/b", .tls = no_files});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no TLS"));
}

TEST(CheckAdminListenTest, OnlyTheFirstAddressSaysWhetherTenantsAreProven) {
  EXPECT_FALSE(ServerOptions{.admin_listen = "unix:/a"}.knows_callers());
  EXPECT_TRUE((ServerOptions{.listen = "unix:/a", .admin_listen = "127.0.0.1:0"}
                   .knows_callers()));
  EXPECT_FALSE(
      (ServerOptions{.admin_listen = "unix:/a", .grants = {"uid:1=viewer"}}
           .knows_callers()));
  EXPECT_TRUE(ServerOptions{.grants = {"cn:a=viewer"}}.knows_callers());
  EXPECT_TRUE(ServerOptions{.tokens = "t"}.knows_callers());
}

}  // namespace
}  // namespace plimsoll::services
