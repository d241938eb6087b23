// Which connection to a worker a request gets.
#include "services/gateway/worker_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::SizeIs;

bool HasFailed(grpc::Channel& channel) {
  return channel.GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

// Returns once the channel could not connect.
void AwaitFailure(grpc::Channel& channel) {
  for (;;) {
    const auto state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return;
    channel.WaitForStateChange(
        state, std::chrono::system_clock::now() + std::chrono::seconds(10));
  }
}

// The channels of as many requests as there are connections, and one more.
std::set<std::shared_ptr<grpc::Channel>> ChannelsOf(WorkerLink& link) {
  std::set<std::shared_ptr<grpc::Channel>> channels;
  for (size_t i = 0; i <= WorkerLink::kMaxConnections; ++i) {
    channels.insert(link.channel());
  }
  return channels;
}

class WorkerLinkTest : public ::testing::Test {
 protected:
  WorkerLink link_{"127.0.0.1:1", {}, ""};  // nobody listens there
};

TEST_F(WorkerLinkTest, RequestsUseAllConnectionsInTurn) {
  EXPECT_THAT(ChannelsOf(link_), SizeIs(WorkerLink::kMaxConnections));
}

TEST_F(WorkerLinkTest, ARequestDoesNotGetAConnectionThatFailed) {
  const auto failed = link_.channel();
  std::set<std::shared_ptr<grpc::Channel>> channels;
  do {  // until it had failed all the time
    AwaitFailure(*failed);
    channels = ChannelsOf(link_);
  } while (!HasFailed(*failed));
  EXPECT_THAT(channels, SizeIs(WorkerLink::kMaxConnections - 1));
  EXPECT_THAT(channels, Not(Contains(failed)));
}

TEST_F(WorkerLinkTest, ARequestGetsOneThatFailedIfAllHave) {
  for (const auto& channel : ChannelsOf(link_)) AwaitFailure(*channel);
  EXPECT_NE(link_.channel(), nullptr);
}

}  // namespace
}  // namespace plimsoll::services
