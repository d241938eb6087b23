#include "services/server/access/tcp_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "tests/services/server/access/connect_to.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

bool IsOpen(int family, int port) { return ConnectTo(family, port).get() >= 0; }

bool HasIpv6() { return ListenOnTcp({"::1", "0"}).ok(); }

int Option(int fd, int level, int name) {
  int value = -1;
  socklen_t n_bytes = sizeof(value);
  EXPECT_EQ(getsockopt(fd, level, name, &value, &n_bytes), 0);
  return value;
}

TEST(ListenOnTcpTest, PortZeroTakesAnyAndAnotherPortIsKept) {
  int port = 0;
  {
    const auto any = ListenOnTcp({"127.0.0.1", "0"});
    ASSERT_TRUE(any.ok()) << any.status();
    port = any->port;
    EXPECT_GT(port, 0);
    EXPECT_TRUE(IsOpen(AF_INET, port));
  }
  EXPECT_FALSE(IsOpen(AF_INET, port));
  const auto again = ListenOnTcp({"127.0.0.1", std::to_string(port)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->port, port);
}

TEST(ListenOnTcpTest, AnAddressInUseIsRefusedWithTheReason) {
  const auto first = ListenOnTcp({"127.0.0.1", "0"});
  ASSERT_TRUE(first.ok()) << first.status();
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    const auto second = ListenOnTcp({host, std::to_string(first->port)});
    EXPECT_EQ(second.status().code(), Code::kUnavailable) << host;
    EXPECT_THAT(std::string(second.status().message()),
                ::testing::HasSubstr("in use"));
  }
}

TEST(ListenOnTcpTest, WhatIsNoAddressOfThisMachineIsRefused) {
  for (const char* host : {"192.0.2.1", "no..host"}) {
    const auto made = ListenOnTcp({host, "0"});
    EXPECT_EQ(made.status().code(), Code::kUnavailable) << host;
    EXPECT_THAT(std::string(made.status().message()),
                ::testing::HasSubstr(host));
  }
}

TEST(ListenOnTcpTest, ANameHasOnePortAtAllOfItsAddresses) {
  const auto made = ListenOnTcp({"localhost", "0"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(IsOpen(AF_INET, made->port));
  if (made->sockets.size() > 1) {
    EXPECT_TRUE(IsOpen(AF_INET6, made->port));
  }
}

TEST(ListenOnTcpTest, AllInterfacesAreThoseOfBothKinds) {
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto made = ListenOnTcp({host, "0"});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->sockets.size(), 1u);
    EXPECT_TRUE(IsOpen(AF_INET, made->port)) << host;
    EXPECT_EQ(IsOpen(AF_INET6, made->port), HasIpv6()) << host;
  }
}

TEST(ListenOnTcpTest, AnAddressOfIpv6IsItsOwn) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  const auto made = ListenOnTcp({"::1", "0"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(IsOpen(AF_INET6, made->port));
  EXPECT_FALSE(IsOpen(AF_INET, made->port));
}

TEST(ListenOnTcpTest, ConnectionsSendAtOnceAndEndWithoutAcknowledgement) {
  const auto made = ListenOnTcp({"127.0.0.1", "0"});
  ASSERT_TRUE(made.ok()) << made.status();
  const OwnedFd client = ConnectTo(AF_INET, made->port);
  const OwnedFd accepted(accept(made->sockets.front().get(), nullptr, nullptr));
  ASSERT_GE(accepted.get(), 0);
  EXPECT_NE(Option(accepted.get(), IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_EQ(Option(accepted.get(), IPPROTO_TCP, TCP_USER_TIMEOUT),
            absl::ToInt64Milliseconds(kAckTimeout));
}

}  // namespace
}  // namespace plimsoll::services
