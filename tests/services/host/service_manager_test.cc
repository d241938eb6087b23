// A service manager hears that a process is ready, alive and stopping; one that
// hangs is silent.
#include "services/host/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

constexpr time_t kPatienceSeconds = 60;

// A manager's end: a socket that collects what it is told.
class Manager {
 public:
  explicit Manager(const std::string& address)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    std::memcpy(own.sun_path, address.data(), address.size());
    if (address[0] == '@') own.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                             address.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&own), size), 0)
        << address << ": " << std::strerror(errno);
    const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Manager() { close(fd_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // The next message; waits for it.
  std::string Next() { return Receive(0); }
  // The next message if there is one, else "".
  std::string Waiting() { return Receive(MSG_DONTWAIT); }

 private:
  std::string Receive(int flags) {
    char text[64];
    const ssize_t n = recv(fd_, text, sizeof(text), flags);
    return n < 0 ? "" : std::string(text, static_cast<size_t>(n));
  }

  const int fd_;
};

class ServiceManagerTest : public ::testing::Test {
 protected:
  ServiceManagerTest() { Forget(); }
  ~ServiceManagerTest() override { Forget(); }

  static void Forget() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
  }
  static void Set(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  }

  const testing::TemporaryFolder folder_;
  const std::string address_ = folder_.File("manager");
};

TEST_F(ServiceManagerTest, HearsOfTheStartAndOfTheEnd) {
  Manager manager(address_);
  Set("NOTIFY_SOCKET", address_);
  ServiceManager told([] { return true; });
  EXPECT_EQ(manager.Waiting(), "");
  told.Ready();
  EXPECT_EQ(manager.Next(), "READY=1");
  told.Stopping();
  EXPECT_EQ(manager.Next(), "STOPPING=1");
  EXPECT_EQ(manager.Waiting(), "");
}

TEST_F(ServiceManagerTest, HearsBeatsUntilTheObjectEnds) {
  Manager manager(address_);
  Set("NOTIFY_SOCKET", address_);
  Set("WATCHDOG_USEC", "2000");
  Set("WATCHDOG_PID", absl::StrCat(getpid()));
  std::atomic<int> n_checks = 0;
  {
    ServiceManager told([&n_checks] {
      ++n_checks;
      return true;
    });
    told.Ready();
    EXPECT_EQ(manager.Next(), "READY=1");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.Next(), "WATCHDOG=1");
    EXPECT_GE(n_checks, 3);
    told.Stopping();
    // Beats that were under way come first, and others follow.
    std::string next = manager.Next();
    while (next == "WATCHDOG=1") next = manager.Next();
    EXPECT_EQ(next, "STOPPING=1");
    EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  }
  while (!manager.Waiting().empty()) continue;
  EXPECT_EQ(manager.Waiting(), "");
}

TEST_F(ServiceManagerTest, HearsNothingWhileACheckHangs) {
  Manager manager(address_);
  Set("NOTIFY_SOCKET", address_);
  Set("WATCHDOG_USEC", "1");
  absl::Notification hangs;
  absl::Notification goes_on;
  ServiceManager told([&] {
    if (!hangs.HasBeenNotified()) hangs.Notify();
    goes_on.WaitForNotification();
    return true;
  });
  told.Ready();
  hangs.WaitForNotification();
  EXPECT_EQ(manager.Next(), "READY=1");
  EXPECT_EQ(manager.Waiting(), "");
  goes_on.Notify();
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
}

TEST_F(ServiceManagerTest, HearsNothingWhileACheckFails) {
  Manager manager(address_);
  Set("NOTIFY_SOCKET", address_);
  Set("WATCHDOG_USEC", "2000");
  std::atomic<bool> is_alive = false;
  std::atomic<int> n_checks = 0;
  ServiceManager told([&] {
    ++n_checks;
    return is_alive.load();
  });
  told.Ready();
  EXPECT_EQ(manager.Next(), "READY=1");
  while (n_checks < 3) std::this_thread::yield();
  EXPECT_EQ(manager.Waiting(), "");
  is_alive = true;
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
}

TEST_F(ServiceManagerTest, NobodyIsToldWithoutAManager) {
  Set("WATCHDOG_USEC", "2000");
  EXPECT_EQ(WantedBeat(), std::nullopt);
  ServiceManager told([] {
    ADD_FAILURE() << "nobody asks";
    return true;
  });
  told.Ready();
  told.Stopping();
}

TEST_F(ServiceManagerTest, AManagerThatIsGoneStopsNothing) {
  Set("NOTIFY_SOCKET", address_);
  EXPECT_TRUE(absl::IsUnavailable(TellManager(address_, "READY=1")));
  ServiceManager told([] { return true; });
  told.Ready();
  told.Stopping();
}

TEST_F(ServiceManagerTest, TheWatchdogOfAnotherProcessIsNotOurs) {
  Set("NOTIFY_SOCKET", address_);
  Set("WATCHDOG_USEC", "60000000");
  EXPECT_EQ(WantedBeat(), absl::Seconds(30));
  Set("WATCHDOG_PID", absl::StrCat(getpid()));
  EXPECT_EQ(WantedBeat(), absl::Seconds(30));
  Set("WATCHDOG_PID", absl::StrCat(getppid()));
  EXPECT_EQ(WantedBeat(), std::nullopt);
}

TEST_F(ServiceManagerTest, BeatsHaveALeastAndAMostTime) {
  Set("NOTIFY_SOCKET", address_);
  const auto beat_of = [](int64_t watchdog_us) {
    Set("WATCHDOG_USEC", absl::StrCat(watchdog_us));
    return WantedBeat();
  };
  EXPECT_EQ(beat_of(2'000), kLeastBeat);
  EXPECT_EQ(beat_of(2'002), absl::Microseconds(1'001));
  EXPECT_EQ(beat_of(1'998), kLeastBeat);
  const int64_t most_us = absl::ToInt64Microseconds(kMostBeat);
  EXPECT_EQ(beat_of(2 * most_us), kMostBeat);
  EXPECT_EQ(beat_of(2 * most_us - 2), kMostBeat - absl::Microseconds(1));
  EXPECT_EQ(beat_of(2 * most_us + 2), kMostBeat);
  EXPECT_EQ(beat_of(0), std::nullopt);
  EXPECT_EQ(beat_of(-1), std::nullopt);
  Set("WATCHDOG_USEC", "soon");
  EXPECT_EQ(WantedBeat(), std::nullopt);
}

TEST_F(ServiceManagerTest, AnAbstractAddressIsAsGoodAsAPath) {
  const std::string address = absl::StrCat("@plimsoll-test-", getpid());
  Manager manager(address);
  ASSERT_TRUE(TellManager(address, "READY=1").ok());
  EXPECT_EQ(manager.Next(), "READY=1");
}

TEST_F(ServiceManagerTest, AnAddressIsAsLongAsTheSystemTakes) {
  std::string address = absl::StrCat("@plimsoll-test-", getpid(), "-");
  address.resize(kMaxManagerAddressBytes, 'x');
  Manager manager(address);
  ASSERT_TRUE(TellManager(address, "READY=1").ok());
  EXPECT_EQ(manager.Next(), "READY=1");
  const absl::Status longer = TellManager(address + "x", "READY=1");
  EXPECT_TRUE(absl::IsInvalidArgument(longer)) << longer;
}

TEST_F(ServiceManagerTest, OtherAddressesAreRefused) {
  for (const char* address : {"", "manager", "vsock:2:1234"}) {
    const absl::Status status = TellManager(address, "READY=1");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address << ": " << status;
  }
}

}  // namespace
}  // namespace plimsoll::services
