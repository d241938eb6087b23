#include "services/server/listener.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "services/server/access/listen_address.h"
#include "services/server/peer.h"

namespace plimsoll::services {
namespace {

using ::testing::StartsWith;

// Keeps where its last call came from.
class PeerService final : public v1::AdminService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest*,
                                    v1::GetLoadResponse*) override {
    peer = context->peer();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  std::string peer;
};

class ListenerTest : public ::testing::Test {
 protected:
  ~ListenerTest() override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) server_->Shutdown();
  }

  absl::Status Start(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    listener_ = std::make_unique<Listener>(builder, ListenerOptions{address});
    server_ = builder.BuildAndStart();
    return listener_->Start();
  }

  grpc::Status Call(const std::string& address) const {
    const auto stub = v1::AdminService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetLoadResponse response;
    return stub->GetLoad(&context, {}, &response);
  }
  std::string PortOfListener() const {
    return ParseListen(listener_->address())->port;
  }

  PeerService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, ACallKnowsTheAddressThatItComesFrom) {
  ASSERT_TRUE(Start("127.0.0.1:0").ok());
  EXPECT_THAT(listener_->address(), StartsWith("127.0.0.1:"));
  ASSERT_TRUE(Call(listener_->address()).ok());
  EXPECT_THAT(service_.peer, StartsWith("ipv4:127.0.0.1:"));
  EXPECT_EQ(PeerOf(service_.peer), "127.0.0.1");
}

TEST_F(ListenerTest, AnAddressOfIpv4StaysOneOnASocketOfIpv6) {
  ASSERT_TRUE(Start("[::]:0").ok());
  EXPECT_THAT(listener_->address(), StartsWith("[::]:"));
  ASSERT_TRUE(Call(absl::StrCat("127.0.0.1:", PortOfListener())).ok());
  EXPECT_THAT(service_.peer, StartsWith("ipv4:127.0.0.1:"));
}

TEST_F(ListenerTest, AnAddressOfIpv6IsKnownToo) {
  if (!Start("[::1]:0").ok()) GTEST_SKIP() << "this machine has no IPv6";
  ASSERT_TRUE(Call(listener_->address()).ok());
  EXPECT_THAT(service_.peer, StartsWith("ipv6:"));
  EXPECT_EQ(PeerOf(service_.peer), "0000000000000000");
}

TEST_F(ListenerTest, NothingIsAcceptedOnceItStops) {
  ASSERT_TRUE(Start("127.0.0.1:0").ok());
  const std::string address = listener_->address();
  listener_->Stop();
  EXPECT_EQ(Call(address).error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace plimsoll::services
