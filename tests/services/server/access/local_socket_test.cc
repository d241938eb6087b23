#include "services/server/access/local_socket.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/server/access/listen_address.h"
#include "services/server/access/token_list.h"
#include "services/server/credentials.h"
#include "services/server/server.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;
using grpc::StatusCode;

// A socket at `path` that was left behind, or on which somebody listens.
OwnedFd SocketAt(const std::string& path, bool listens) {
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  if (listens) {
    EXPECT_EQ(listen(fd.get(), 1), 0);
  }
  return fd;
}

class LocalSocketTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<LocalSocket>> Listen() {
    return ListenWithMode(LocalSocket::kDefaultMode);
  }
  absl::StatusOr<std::unique_ptr<LocalSocket>> ListenWithMode(mode_t mode) {
    return LocalSocket::Listen(path_, mode, [](OwnedFd, const LocalPeer&) {});
  }
  Code CodeOfListen() { return Listen().status().code(); }

  bool IsThere() const {
    struct stat found = {};
    return lstat(path_.c_str(), &found) == 0;
  }
  mode_t Mode() const {
    struct stat found = {};
    EXPECT_EQ(lstat(path_.c_str(), &found), 0);
    return found.st_mode & 07777;
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("s");
};

TEST_F(LocalSocketTest, TheFileHasItsModeAndGoesAtTheEnd) {
  const mode_t old = umask(0077);
  {
    const auto socket = ListenWithMode(0662);
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_EQ(Mode(), 0662u);
  }
  umask(old);
  EXPECT_FALSE(IsThere());
}

TEST_F(LocalSocketTest, ASocketThatWasLeftBehindIsReplaced) {
  SocketAt(path_, /*listens=*/false);
  ASSERT_TRUE(IsThere());
  EXPECT_TRUE(Listen().ok());
}

TEST_F(LocalSocketTest, NobodyLosesTheSocketThatItListensOn) {
  {
    const OwnedFd other = SocketAt(path_, /*listens=*/true);
    EXPECT_EQ(CodeOfListen(), Code::kUnavailable);
    EXPECT_TRUE(IsThere());
  }
  const auto first = Listen();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(CodeOfListen(), Code::kUnavailable);
  // Not even if somebody removed the file.
  unlink(path_.c_str());
  EXPECT_EQ(CodeOfListen(), Code::kUnavailable);
}

TEST_F(LocalSocketTest, WhatSomebodyElsePutThereStays) {
  {
    const auto socket = Listen();
    ASSERT_TRUE(socket.ok()) << socket.status();
    unlink(path_.c_str());
    SocketAt(path_, /*listens=*/false);
  }
  EXPECT_TRUE(IsThere());
}

TEST_F(LocalSocketTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "kept";
  EXPECT_EQ(CodeOfListen(), Code::kFailedPrecondition);
  EXPECT_TRUE(IsThere());
  unlink(path_.c_str());
  ASSERT_EQ(symlink("elsewhere", path_.c_str()), 0);
  EXPECT_EQ(CodeOfListen(), Code::kFailedPrecondition);
}

TEST_F(LocalSocketTest, AFolderThatOthersMayWriteToIsRefused) {
  const std::string folder = folder_.File("");
  ASSERT_EQ(chmod(folder.c_str(), 0770), 0);
  EXPECT_EQ(CodeOfListen(), Code::kFailedPrecondition);
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  EXPECT_TRUE(Listen().ok());
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(LocalSocket::Listen(folder_.File("absent/s"), 0600,
                                [](OwnedFd, const LocalPeer&) {})
                .status()
                .code(),
            Code::kFailedPrecondition);
}

TEST_F(LocalSocketTest, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  ASSERT_EQ(chown(folder_.File("").c_str(), 1, 1), 0);
  EXPECT_EQ(CodeOfListen(), Code::kFailedPrecondition);
}

TEST_F(LocalSocketTest, AnAddressHasAWholePathThatFits) {
  EXPECT_EQ(*ParseUnixAddress("unix:/run/s"), "/run/s");
  EXPECT_EQ(*ParseUnixAddress("unix:///run/s"), "/run/s");
  const std::string most = "/" + std::string(kMaxSocketPathBytes - 1, 'a');
  EXPECT_EQ(*ParseUnixAddress("unix:" + most), most);
  for (const std::string& address :
       {std::string("unix:"), std::string("unix:s"), std::string("unix://h/s"),
        std::string("unix:/run/"), "unix:" + most + "a",
        std::string("unix:/a\0b", 9)}) {
    EXPECT_EQ(ParseUnixAddress(address).status().code(), Code::kInvalidArgument)
        << address;
  }
}

// A planner on a Unix socket. The test's own user calls it.
class LocalServerTest : public LocalSocketTest {
 protected:
  void Start(ServerOptions options) {
    options.listen = "unix:" + path_;
    auto server = Server::Start(options, {service_.get()}, gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_EQ(server_->address(), options.listen);
  }

  std::shared_ptr<grpc::Channel> Channel(const ClientSecurity& security) {
    return grpc::CreateChannel(
        server_->address(),
        NewChannelCredentials(security, server_->address()));
  }
  grpc::Status List() { return ListAs({}); }
  grpc::Status ListAs(const ClientSecurity& security) {
    const auto stub = v1::PlannerService::NewStub(Channel(security));
    grpc::ClientContext context;
    v1::ListDevicesResponse response;
    return stub->ListDevices(&context, {}, &response);
  }
  // An administrator's own call would end with another code.
  StatusCode Release() { return ReleaseAs({}); }
  StatusCode ReleaseAs(const ClientSecurity& security) {
    const auto stub = v1::PlannerService::NewStub(Channel(security));
    grpc::ClientContext context;
    v1::ReleaseResponse response;
    v1::ReleaseRequest request;
    request.set_lease_id("none");
    return stub->Release(&context, request, &response).error_code();
  }
  std::string Me(const std::string& rights) const {
    return "uid:" + std::to_string(geteuid()) + "=" + rights;
  }

  CallGate gate_;
  Ledger ledger_{BootTime};
  Planner planner_{{}, ledger_};
  std::unique_ptr<WorkPool> pool_ = *WorkPool::Start();
  std::unique_ptr<grpc::Service> service_ = NewPlannerService(
      {.planner = planner_, .ledger = ledger_, .gate = gate_, .pool = *pool_});
  std::unique_ptr<Server> server_;
};

TEST_F(LocalServerTest, TheServersOwnUserMayDoEverything) {
  Start({});
  EXPECT_TRUE(List().ok()) << List().error_message();
  EXPECT_EQ(Release(), StatusCode::NOT_FOUND);
}

TEST_F(LocalServerTest, AGrantForTheUserCountsBeforeThat) {
  Start({.grants = {Me("viewer")}});
  EXPECT_TRUE(List().ok()) << List().error_message();
  EXPECT_EQ(Release(), StatusCode::PERMISSION_DENIED);
}

TEST_F(LocalServerTest, ATokenCountsBeforeTheUser) {
  std::ofstream(folder_.File("tokens.json"))
      << FormatTokenList({{"v", HashToken("viewer"), "", Role::kViewer}});
  Start({.tokens = folder_.File("tokens.json")});
  EXPECT_EQ(Release(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(ListAs({.token = "viewer"}).ok());
  EXPECT_EQ(ReleaseAs({.token = "viewer"}), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ListAs({.token = "wrong"}).error_code(),
            StatusCode::UNAUTHENTICATED);
}

TEST_F(LocalServerTest, ConnectionsGoOnWhileOthersComeAndGo) {
  Start({.grants = {Me("viewer")}});
  const auto stub = v1::PlannerService::NewStub(Channel({}));
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    v1::ListDevicesResponse response;
    ASSERT_TRUE(stub->ListDevices(&context, {}, &response).ok());
    ASSERT_TRUE(List().ok());
  }
}

TEST_F(LocalServerTest, TwoServersHaveTwoSockets) {
  Start({});
  CallGate gate;
  EXPECT_EQ(Server::Start({.listen = "unix:" + path_}, {service_.get()}, gate)
                .status()
                .code(),
            Code::kUnavailable);
  EXPECT_TRUE(List().ok());
}

TEST_F(LocalServerTest, TheEndOfAServerEndsItsSocket) {
  Start({});
  server_->Drain([] {});
  EXPECT_FALSE(IsThere());
  server_ = nullptr;
  EXPECT_TRUE(Listen().ok());
}

TEST(CheckLocalListenTest, GrantsThatNobodyAsksForAreRefused) {
  const auto code = [](const ServerOptions& options) {
    return CheckListen(options).code();
  };
  EXPECT_EQ(code({.listen = "unix:/s"}), Code::kOk);
  EXPECT_EQ(code({.listen = "unix:/s", .grants = {"uid:1=viewer"}}), Code::kOk);
  EXPECT_EQ(code({.listen = "unix:/s", .grants = {"cn:a=viewer"}}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({.grants = {"uid:1=viewer"}}), Code::kInvalidArgument);
  EXPECT_EQ(code({.grants = {"cn:a=viewer"}}), Code::kInvalidArgument);
  EXPECT_EQ(code({.listen = "unix:s"}), Code::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::services
