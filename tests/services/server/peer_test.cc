// Whose a call is, by where it comes from.
#include "services/server/peer.h"

#include <gtest/gtest.h>

namespace plimsoll::services {
namespace {

TEST(PeerTest, PortsOfAnAddressAreOnePeer) {
  EXPECT_EQ(PeerOf("ipv4:192.0.2.7:50123"), "192.0.2.7");
  EXPECT_EQ(PeerOf("ipv4:192.0.2.7:1"), "192.0.2.7");
  EXPECT_NE(PeerOf("ipv4:192.0.2.8:1"), PeerOf("ipv4:192.0.2.7:1"));
}

TEST(PeerTest, AddressesOfANetworkOfIpv6AreOnePeer) {
  const std::string peer = PeerOf("ipv6:%5B2001:db8:1:2::1%5D:50123");
  EXPECT_EQ(peer, "20010db800010002");
  EXPECT_EQ(PeerOf("ipv6:[2001:db8:1:2:3:4:5:6]:1"), peer);
  EXPECT_NE(PeerOf("ipv6:[2001:db8:1:3::1]:1"), peer);
  EXPECT_EQ(PeerOf("ipv6:%5Bfe80::1%25eth0%5D:7"), "fe80000000000000");
}

TEST(PeerTest, SocketsWithoutAnAddressAreOnePeer) {
  for (const char* uri : {"", "unix:", "unix:/run/plimsoll", "unix:@name",
                          "ipv6:nonsense", "unknown"}) {
    EXPECT_EQ(PeerOf(uri), "") << uri;
  }
}

}  // namespace
}  // namespace plimsoll::services
