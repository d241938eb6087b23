#include "services/server/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/dev_certificates.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/server/server.h"
#include "services/server/token_list.h"
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
        server_->address(), NewChannelCredentials(security)));
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
  std::unique_ptr<grpc::Service> service_ =
      NewPlannerService(planner_, ledger_, gate_, *pool_);
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
      server_->address(), NewChannelCredentials({.token = "user"})));
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
