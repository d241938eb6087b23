#include "services/host/process_identity.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/read_file.h"
#include "tests/services/planner/sleeper.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;
using testing::NoDescriptors;
using testing::Sleeper;

// The letter in /proc/PID/stat.
char StateOf(int64_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t end = stat.rfind(')');
  return end == std::string::npos ? ' ' : stat[end + 2];
}

TEST(ProcessIdentityTest, OursIsOneWordAndBack) {
  const auto own = OwnIdentity();
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->pid, getpid());
  EXPECT_GT(own->start_ticks, 0);
  const auto back = ParseIdentity(ToString(*own));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(ToString(*back), ToString(*own));
}

TEST(ProcessIdentityTest, OtherWordsAreNone) {
  for (const char* text :
       {"", "a", "boot:1:2", "boot:1:2:3:4", ":1:2:3", "boot:x:2:3",
        "boot:1:0:3", "boot:1:-2:3", "boot:1:2:99999999999999999999"}) {
    EXPECT_FALSE(ParseIdentity(text).has_value()) << text;
  }
  const std::string longest(ProcessIdentity::kMaxBootIdBytes, 'b');
  EXPECT_TRUE(ParseIdentity(longest + ":1:2:3").has_value());
  EXPECT_FALSE(ParseIdentity(longest + "b:1:2:3").has_value());
}

TEST(ProcessIdentityTest, AProcessThatIsNotThereNeverStarted) {
  EXPECT_FALSE(StartTicks(-1).has_value());
  EXPECT_TRUE(StartTicks(getpid()).has_value());
}

TEST(HasEndedTest, WhoRunsOrIsStoppedHasNot) {
  EXPECT_FALSE(HasEnded(*OwnIdentity()));
  Sleeper sleeper;
  EXPECT_FALSE(HasEnded(sleeper.OwnName()));
  sleeper.Stop();
  while (StateOf(sleeper.OwnName().pid) != 'T') std::this_thread::yield();
  EXPECT_FALSE(HasEnded(sleeper.OwnName()));
}

TEST(HasEndedTest, WhoWasKilledHasAlsoBeforeItIsCollected) {
  Sleeper sleeper;
  const ProcessIdentity identity = sleeper.OwnName();
  kill(static_cast<pid_t>(identity.pid), SIGKILL);
  while (StateOf(identity.pid) != 'Z') std::this_thread::yield();
  EXPECT_TRUE(HasEnded(identity));
  sleeper.Kill();
  EXPECT_TRUE(HasEnded(identity));
}

TEST(HasEndedTest, WhosePidIsAnothersHas) {
  ProcessIdentity identity = *OwnIdentity();
  ++identity.start_ticks;
  EXPECT_TRUE(HasEnded(identity));
}

TEST(HasEndedTest, WithoutDescriptorsNothingIsCertain) {
  const ProcessIdentity own = *OwnIdentity();
  Sleeper sleeper;
  const ProcessIdentity living = sleeper.OwnName();
  ProcessIdentity other = own;
  ++other.start_ticks;
  bool has_ended = false;
  {
    const NoDescriptors none;
    has_ended = HasEnded(own) || HasEnded(living) || HasEnded(other);
  }
  EXPECT_FALSE(has_ended);
  EXPECT_TRUE(HasEnded(other));
}

TEST(HasEndedTest, WhoseFirstThreadAloneEndedHasNot) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t thread{};
    const auto sleep = [](void*) -> void* {
      while (true) pause();
    };
    if (pthread_create(&thread, nullptr, sleep, nullptr) != 0) _exit(1);
    syscall(SYS_exit, 0);  // this thread's
  }
  ProcessIdentity identity = *OwnIdentity();
  identity.pid = pid;
  identity.start_ticks = StartTicks(pid).value_or(0);
  while (StateOf(pid) != 'Z') std::this_thread::yield();
  EXPECT_FALSE(HasEnded(identity));
  kill(pid, SIGKILL);
  while (!HasEnded(identity)) std::this_thread::yield();
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(HasEnded(identity));
}

TEST(IsLaterThreadTest, OnlyOfAThreadThatIsNotTheFirst) {
  EXPECT_FALSE(IsLaterThread(getpid()));
  EXPECT_FALSE(IsLaterThread(0));
  EXPECT_FALSE(IsLaterThread(-1));
  EXPECT_FALSE(IsLaterThread(int64_t{1} << 40));
  Sleeper sleeper;
  const int64_t pid = sleeper.OwnName().pid;
  EXPECT_FALSE(IsLaterThread(pid));
  sleeper.Kill();
  EXPECT_FALSE(IsLaterThread(pid));
  absl::Notification is_over;
  absl::Notification is_there;
  int64_t id = 0;
  std::thread thread([&] {
    id = gettid();
    is_there.Notify();
    is_over.WaitForNotification();
  });
  is_there.WaitForNotification();
  EXPECT_TRUE(IsLaterThread(id));
  {
    const NoDescriptors none;
    EXPECT_TRUE(IsLaterThread(id));
  }
  is_over.Notify();
  thread.join();
}

}  // namespace
}  // namespace plimsoll::services
