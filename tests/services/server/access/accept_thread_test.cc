#include "services/server/access/accept_thread.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/server/access/tcp_socket.h"

namespace plimsoll::services {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// A client of 127.0.0.1 that is not connected yet.
class Client {
 public:
  bool Connect(int port) const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) == 0;
  }

 private:
  const OwnedFd fd_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

// The process has no descriptor left while this lives.
class NoDescriptors {
 public:
  // `limit` is what the system allows then; less than are open.
  explicit NoDescriptors(rlim_t limit) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &old_), 0);
    rlimit none = old_;
    none.rlim_cur = limit;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &old_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit old_ = {};
};

TEST(AcceptThreadTest, ALackOfDescriptorsOnlyDelaysAConnection) {
  TcpSockets made = *ListenOnTcp({"127.0.0.1", "0"});
  absl::Notification first;
  absl::Notification second;
  std::atomic<int> n_taken = 0;
  const auto thread = AcceptThread::Start(
      std::move(made.sockets), "here", [&](OwnedFd connection) {
        EXPECT_GE(connection.get(), 0);
        (n_taken++ == 0 ? first : second).Notify();
      });
  ASSERT_TRUE(thread.ok()) << thread.status();
  const Client before;
  const Client meanwhile;
  ASSERT_TRUE(before.Connect(made.port));
  ASSERT_TRUE(first.WaitForNotificationWithTimeout(kPatience));
  {
    const NoDescriptors none(3);
    ASSERT_TRUE(meanwhile.Connect(made.port));
    // It is tried several times, and the thread goes on.
    EXPECT_FALSE(
        second.WaitForNotificationWithTimeout(5 * AcceptThread::kPause));
  }
  EXPECT_TRUE(second.WaitForNotificationWithTimeout(kPatience));
}

TEST(AcceptThreadTest, ItEndsWhileThereIsALackOfDescriptors) {
  TcpSockets made = *ListenOnTcp({"127.0.0.1", "0"});
  auto thread = AcceptThread::Start(std::move(made.sockets), "here",
                                    [](OwnedFd) { FAIL(); });
  ASSERT_TRUE(thread.ok()) << thread.status();
  const Client client;
  // `poll` fails with such a limit, too.
  const NoDescriptors none(0);
  ASSERT_TRUE(client.Connect(made.port));
  *thread = nullptr;
}

TEST(AcceptThreadTest, EachSocketIsListenedTo) {
  TcpSockets first = *ListenOnTcp({"127.0.0.1", "0"});
  TcpSockets second = *ListenOnTcp({"127.0.0.1", "0"});
  std::vector<OwnedFd> sockets;
  sockets.push_back(std::move(first.sockets.front()));
  sockets.push_back(std::move(second.sockets.front()));
  absl::Notification both;
  std::atomic<int> n_taken = 0;
  const auto thread =
      AcceptThread::Start(std::move(sockets), "here", [&](OwnedFd) {
        if (++n_taken == 2) both.Notify();
      });
  ASSERT_TRUE(thread.ok()) << thread.status();
  const Client one;
  const Client other;
  ASSERT_TRUE(one.Connect(first.port));
  ASSERT_TRUE(other.Connect(second.port));
  EXPECT_TRUE(both.WaitForNotificationWithTimeout(kPatience));
}

TEST(AcceptThreadTest, TheEndClosesTheSockets) {
  TcpSockets made = *ListenOnTcp({"127.0.0.1", "0"});
  auto thread =
      AcceptThread::Start(std::move(made.sockets), "here", [](OwnedFd) {});
  ASSERT_TRUE(thread.ok()) << thread.status();
  *thread = nullptr;
  EXPECT_FALSE(Client().Connect(made.port));
}

}  // namespace
}  // namespace plimsoll::services
