#include "services/server/access/flood_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "services/server/access/accept_thread.h"
#include "services/server/access/tcp_socket.h"
#include "tests/services/server/access/connect_to.h"

namespace plimsoll::services {
namespace {

constexpr int kPatienceMs = 30'000;
constexpr int64_t kMiB = int64_t{1} << 20;

// A connection of TCP over loopback, of which the test has both ends.
class Connection {
 public:
  Connection() {
    const TcpSockets made = *ListenOnTcp({"127.0.0.1", "0"});
    client_ = ConnectTo(AF_INET, made.port);
    EXPECT_GE(client_.get(), 0);
    server_ = OwnedFd(
        accept4(made.sockets.front().get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_GE(server_.get(), 0);
  }

  int server() const { return server_.get(); }

  // The client sends so many bytes, which the server reads. Returns false once
  // the connection has ended.
  bool Send(int64_t n_bytes) {
    return SendAndAnswer(n_bytes, /*n_unanswered=*/INT64_MAX);
  }
  // The server sends a byte after each of `n_unanswered` bytes.
  bool SendAndAnswer(int64_t n_bytes, int64_t n_unanswered) {
    int64_t n_open = 0;
    while (n_bytes > 0) {
      const auto n_part = static_cast<size_t>(
          std::min(n_bytes, static_cast<int64_t>(data_.size())));
      const ssize_t n_sent =
          send(client_.get(), data_.data(), n_part, MSG_NOSIGNAL);
      if (n_sent <= 0 || !Receive(n_sent)) return false;
      n_bytes -= n_sent;
      n_open += n_sent;
      if (n_open < n_unanswered) continue;
      n_open = 0;
      if (send(server_.get(), "a", 1, MSG_NOSIGNAL) != 1) return false;
    }
    return true;
  }

  // Returns whether the connection ends within the test's patience.
  bool Ends() const {
    pollfd wait = {.fd = client_.get(), .events = POLLRDHUP, .revents = 0};
    return poll(&wait, 1, kPatienceMs) == 1;
  }

 private:
  bool Receive(ssize_t n_bytes) {
    while (n_bytes > 0) {
      const ssize_t n =
          recv(server_.get(), received_.data(),
               std::min(static_cast<size_t>(n_bytes), received_.size()), 0);
      if (n <= 0) return false;
      n_bytes -= n;
    }
    return true;
  }

  OwnedFd client_;
  OwnedFd server_;
  const std::vector<char> data_ = std::vector<char>(64 << 10, 'x');
  std::vector<char> received_ = std::vector<char>(64 << 10);
};

TEST(FloodWatchTest, OneByteMoreThanTheLimitResetsAConnection) {
  Connection connection;
  const auto watch = *FloodWatch::Start("here");
  watch->Add(connection.server());
  EXPECT_TRUE(connection.Send(FloodWatch::kMaxUnansweredBytes));
  absl::SleepFor(3 * FloodWatch::kInterval);
  EXPECT_TRUE(connection.Send(1));
  EXPECT_TRUE(connection.Ends());
}

TEST(FloodWatchTest, TheLimitIsThatOfAllConnectionsAndTheLargestIsReset) {
  Connection small;
  Connection large;
  const auto watch = *FloodWatch::Start("here");
  watch->Add(small.server());
  watch->Add(large.server());
  EXPECT_TRUE(small.Send(FloodWatch::kMaxUnansweredBytes / 4));
  EXPECT_TRUE(large.Send(FloodWatch::kMaxUnansweredBytes * 3 / 4));
  EXPECT_TRUE(small.Send(1));
  EXPECT_TRUE(large.Ends());
  EXPECT_TRUE(small.Send(kMiB));
}

TEST(FloodWatchTest, WhoIsAnsweredMaySendWithoutEnd) {
  Connection answered;
  Connection silent;
  const auto watch = *FloodWatch::Start("here");
  watch->Add(answered.server());
  watch->Add(silent.server());
  EXPECT_TRUE(
      answered.SendAndAnswer(4 * FloodWatch::kMaxUnansweredBytes, kMiB));
  // The watch has looked at both when this one ends.
  silent.Send(FloodWatch::kMaxUnansweredBytes + kMiB);
  EXPECT_TRUE(silent.Ends());
  EXPECT_TRUE(answered.Send(kMiB));
}

TEST(FloodWatchTest, AnotherFileOfTheDescriptorIsLeftAlone) {
  Connection other;
  Connection silent;
  const auto watch = *FloodWatch::Start("here");
  {
    const Connection closed;
    const OwnedFd number(dup(closed.server()));
    watch->Add(number.get());
    ASSERT_EQ(dup2(other.server(), number.get()), number.get());
    EXPECT_TRUE(other.Send(FloodWatch::kMaxUnansweredBytes + kMiB));
    watch->Add(silent.server());
    // What has most bytes is looked at first.
    silent.Send(FloodWatch::kMaxUnansweredBytes + 1);
    EXPECT_TRUE(silent.Ends());
  }
  EXPECT_TRUE(other.Send(kMiB));
}

TEST(FloodWatchTest, WhatIsNoConnectionIsNotWatched) {
  const auto watch = *FloodWatch::Start("here");
  watch->Add(-1);
  const OwnedFd unconnected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  watch->Add(unconnected.get());
  Connection closed;
  {
    Connection gone;
    watch->Add(gone.server());
  }
  watch->Add(closed.server());
  closed.Send(FloodWatch::kMaxUnansweredBytes + kMiB);
  EXPECT_TRUE(closed.Ends());
}

}  // namespace
}  // namespace plimsoll::services
