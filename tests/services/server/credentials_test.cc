#include "services/server/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/dev_certificates.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/server/access/token_list.h"
#include "services/server/server.h"
#include "services/wire/to_proto.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using grpc::StatusCode;

// A planner that asks who calls, and its clients.
class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    Write("tokens.json",
          FormatTokenList({{"v", HashToken("viewer"), "", Role::kViewer},
                           {"u", HashToken("user"), "t", Role::kUser}}));
    const cli::CertificatePair ca = *cli::NewDevCa();
    const cli::CertificatePair server =
        *cli::NewDevServer(ca, {"localhost", "127.0.0.1"});
    const cli::CertificatePair client = *cli::NewDevClient(ca, "client");
    Write("ca.pem", ca.certificate);
    Write("server.pem", server.certificate);
    Write("server-key.pem", server.key);
    Write("client.pem", client.certificate);
    Write("client-key.pem", client.key);
    Write("other-ca.pem", cli::NewDevCa()->certificate);
  }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  ServerTls Tls() const { return {File("server.pem"), File("server-key.pem")}; }

  void Start(const ServerOptions& options) {
    auto server = Server::Start(options, {service_.get()}, gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  grpc::Status List(const ClientSecurity& security) {
    const auto stub = v1::PlannerService::NewStub(grpc::CreateChannel(
        server_->address(),
        NewChannelCredentials(security, server_->address())));
    grpc::ClientContext context;
    v1::ListDevicesResponse response;
    return stub->ListDevices(&context, {}, &response);
  }
  StatusCode CodeOf(const ClientSecurity& security) {
    return List(security).error_code();
  }

  const testing::TemporaryFolder folder_;
  CallGate gate_;
  Ledger ledger_{BootTime};
  Planner planner_{{}, ledger_};
  std::unique_ptr<WorkPool> pool_ = *WorkPool::Start();
  std::unique_ptr<grpc::Service> service_ = NewPlannerService(
      {.planner = planner_, .ledger = ledger_, .gate = gate_, .pool = *pool_});
  std::unique_ptr<Server> server_;
};

TEST_F(CredentialsTest, ATokenComesOverLoopbackInPlainText) {
  Start({.tokens = File("tokens.json")});
  EXPECT_EQ(CodeOf({.token = "viewer"}), StatusCode::OK);
  Write("token", "user\n");
  EXPECT_EQ(CodeOf({.token_file = File("token"), .token = "wrong"}),
            StatusCode::OK);
  EXPECT_EQ(CodeOf({.token = "wrong"}), StatusCode::UNAUTHENTICATED);
  const grpc::Status none = List({});
  EXPECT_EQ(none.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(none.error_message(), ::testing::HasSubstr("wants a token"));
}

TEST_F(CredentialsTest, ALowRoleIsRefused) {
  Start({.tokens = File("tokens.json")});
  const auto stub = v1::PlannerService::NewStub(grpc::CreateChannel(
      server_->address(),
      NewChannelCredentials({.token = "user"}, server_->address())));
  grpc::ClientContext context;
  v1::ReserveResponse response;
  const grpc::Status status = stub->Reserve(&context, {}, &response);
  EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("role user"));
}

TEST_F(CredentialsTest, AClientTrustsTheCaThatItWasGiven) {
  Start({.tls = Tls()});
  EXPECT_EQ(CodeOf({.ca = File("ca.pem")}), StatusCode::OK);
  EXPECT_EQ(CodeOf({.ca = File("other-ca.pem")}), StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOf({}), StatusCode::UNAVAILABLE);
}

TEST_F(CredentialsTest, AServerMayWantACertificate) {
  ServerTls tls = Tls();
  tls.client_ca = File("ca.pem");
  Start({.tls = tls, .tokens = File("tokens.json")});
  const ClientSecurity without = {.ca = File("ca.pem"), .token = "viewer"};
  EXPECT_EQ(CodeOf(without), StatusCode::UNAVAILABLE);
  ClientSecurity with = without;
  with.cert = File("client.pem");
  with.key = File("client-key.pem");
  EXPECT_EQ(CodeOf(with), StatusCode::OK);
  with.token = "";
  EXPECT_EQ(CodeOf(with), StatusCode::UNAUTHENTICATED);
}

// A planner that asks for certificates and gives them rights.
class CertificateGrantsTest : public CredentialsTest {
 protected:
  CertificateGrantsTest() {
    Write("ca.pem", ca_.certificate);
    const cli::CertificatePair server = *cli::NewDevServer(ca_, {"127.0.0.1"});
    Write("server.pem", server.certificate);
    Write("server-key.pem", server.key);
  }

  void StartWith(std::vector<std::string> grants, std::string tokens) {
    ServerTls tls = Tls();
    tls.client_ca = File("ca.pem");
    Start(
        {.tls = tls, .tokens = std::move(tokens), .grants = std::move(grants)});
  }

  // A client whose certificate has these names.
  ClientSecurity Client(const std::string& name, const std::string& others) {
    const cli::CertificatePair pair = *cli::NewDevClient(ca_, name, others);
    Write(name + ".pem", pair.certificate);
    Write(name + ".key", pair.key);
    return {.ca = File("ca.pem"),
            .cert = File(name + ".pem"),
            .key = File(name + ".key")};
  }

  std::unique_ptr<v1::PlannerService::Stub> StubOf(const ClientSecurity& who) {
    return v1::PlannerService::NewStub(grpc::CreateChannel(
        server_->address(), NewChannelCredentials(who, server_->address())));
  }
  StatusCode RegisterBy(const ClientSecurity& who) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "cpu";
    profile.total_bytes = 1'000;
    profile.free_bytes = 1'000;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    request.set_holder("h");
    grpc::ClientContext context;
    v1::RegisterDeviceResponse response;
    return StubOf(who)
        ->RegisterDevice(&context, request, &response)
        .error_code();
  }
  v1::Lease ReserveBy(const ClientSecurity& who, const std::string& id) {
    v1::ReserveRequest request;
    request.set_request_id(id);
    request.set_device_id("cpu");
    request.set_holder("host/1");
    request.set_bytes(100);
    grpc::ClientContext context;
    v1::ReserveResponse response;
    const grpc::Status status =
        StubOf(who)->Reserve(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.lease();
  }
  StatusCode ReleaseBy(const ClientSecurity& who, const v1::Lease& lease) {
    v1::ReleaseRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    grpc::ClientContext context;
    v1::ReleaseResponse response;
    return StubOf(who)->Release(&context, request, &response).error_code();
  }

  const cli::CertificatePair ca_ = *cli::NewDevCa();
};

TEST_F(CertificateGrantsTest, TheNamesInACertificateSayWhatItMayDo) {
  StartWith(
      {"uri:spiffe://x/gpu1=worker", "dns:ada.example=viewer", "cn:ops=admin"},
      /*tokens=*/"");
  const ClientSecurity worker = Client("w", "URI:spiffe://x/gpu1");
  const ClientSecurity viewer = Client("v", "DNS:ADA.example");
  EXPECT_EQ(RegisterBy(viewer), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(RegisterBy(worker), StatusCode::OK);
  EXPECT_EQ(RegisterBy(Client("ops", "")), StatusCode::OK);
  EXPECT_EQ(CodeOf(viewer), StatusCode::OK);
  for (const ClientSecurity& stranger :
       {Client("a", "URI:spiffe://x/gpu2"), Client("b", "DNS:ops"),
        Client("ada.example", "")}) {
    EXPECT_EQ(CodeOf(stranger), StatusCode::PERMISSION_DENIED);
  }
}

TEST_F(CertificateGrantsTest, ATokenCountsBeforeTheCertificate) {
  StartWith({"cn:ops=admin"}, File("tokens.json"));
  ClientSecurity ops = Client("ops", "");
  EXPECT_EQ(RegisterBy(ops), StatusCode::OK);
  ops.token = "viewer";
  EXPECT_EQ(RegisterBy(ops), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(CodeOf(ops), StatusCode::OK);
  ops.token = "wrong";
  EXPECT_EQ(CodeOf(ops), StatusCode::UNAUTHENTICATED);
}

TEST_F(CertificateGrantsTest, AWorkerTouchesItsOwnLeasesOnly) {
  StartWith({"dns:a.example=worker", "dns:b.example=worker", "cn:ops=admin"},
            /*tokens=*/"");
  const ClientSecurity a = Client("a", "DNS:a.example");
  const ClientSecurity b = Client("b", "DNS:b.example");
  ASSERT_EQ(RegisterBy(a), StatusCode::OK);
  const v1::Lease of_a = ReserveBy(a, "r");
  // Another worker may use the same names for its holder and its request.
  const v1::Lease of_b = ReserveBy(b, "r");
  EXPECT_EQ(of_a.holder(), "dns:a.example host/1");
  EXPECT_NE(of_a.id(), of_b.id());
  EXPECT_EQ(ReleaseBy(b, of_a), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReleaseBy(a, of_b), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReleaseBy(a, of_a), StatusCode::OK);
  EXPECT_EQ(ReleaseBy(Client("ops", ""), of_b), StatusCode::OK);
}

TEST_F(CredentialsTest, OneOfTwoTokensDoesNotCount) {
  Start({.tokens = File("tokens.json")});
  const auto stub = v1::PlannerService::NewStub(grpc::CreateChannel(
      server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer viewer");
  context.AddMetadata("authorization", "Bearer user");
  v1::ListDevicesResponse response;
  EXPECT_EQ(stub->ListDevices(&context, {}, &response).error_code(),
            StatusCode::UNAUTHENTICATED);
}

TEST_F(CredentialsTest, BadFilesStartNoServer) {
  Write("bad", "nonsense");
  for (const ServerOptions& options :
       {ServerOptions{.tokens = File("bad")},
        ServerOptions{.tokens = File("absent")},
        ServerOptions{.tls = {File("bad"), File("bad")}}}) {
    EXPECT_EQ(Server::Start(options, {service_.get()}, gate_).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CredentialsTest, BeyondLoopbackThereIsTlsAndSomebodyAsks) {
  ServerOptions options{.listen = "0.0.0.0:0"};
  const auto code = [&options] { return CheckListen(options).code(); };
  EXPECT_EQ(code(), absl::StatusCode::kFailedPrecondition);
  options.tokens = File("tokens.json");
  EXPECT_EQ(code(), absl::StatusCode::kFailedPrecondition);
  options.tls = Tls();
  EXPECT_EQ(code(), absl::StatusCode::kOk);
  options.tokens = "";
  EXPECT_EQ(code(), absl::StatusCode::kFailedPrecondition);
  options.tls.client_ca = File("ca.pem");
  EXPECT_EQ(code(), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace plimsoll::services
