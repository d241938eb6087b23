// Which process a caller by a Unix socket may say that it is.
#include "services/server/access/local_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/services/planner/sleeper.h"

namespace plimsoll::services {
namespace {

using testing::Sleeper;

constexpr size_t kClass = 2;

bool MayBe(const LocalProcesses& processes, const ProcessIdentity& process,
           size_t local_class) {
  const absl::Status status = processes.Check(local_class, process);
  EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
  return status.ok();
}

TEST(LocalProcessesTest, ACallerIsAProcessThatHasConnected) {
  LocalProcesses processes;
  const Sleeper sleeper;
  const ProcessIdentity process = sleeper.OwnName();
  EXPECT_FALSE(MayBe(processes, process, kClass));
  processes.Add(kClass, getpid());
  EXPECT_FALSE(MayBe(processes, process, kClass));
  EXPECT_TRUE(MayBe(processes, *OwnIdentity(), kClass));
  processes.Add(kClass, static_cast<pid_t>(process.pid));
  EXPECT_TRUE(MayBe(processes, process, kClass));
}

TEST(LocalProcessesTest, OthersRightsDoNotCount) {
  LocalProcesses processes;
  processes.Add(kClass, getpid());
  EXPECT_FALSE(MayBe(processes, *OwnIdentity(), kClass + 1));
}

TEST(LocalProcessesTest, APidThatIsUsedAgainIsAnotherProcess) {
  LocalProcesses processes;
  processes.Add(kClass, getpid());
  ProcessIdentity other = *OwnIdentity();
  ++other.start_ticks;
  EXPECT_FALSE(MayBe(processes, other, kClass));
}

TEST(LocalProcessesTest, WhatCannotBeComparedIsTaken) {
  LocalProcesses processes;
  ProcessIdentity process = *OwnIdentity();
  ++process.pid_namespace;
  EXPECT_TRUE(MayBe(processes, process, kClass));
  process = *OwnIdentity();
  process.boot_id = "another host";
  EXPECT_TRUE(MayBe(processes, process, kClass));
}

TEST(LocalProcessesTest, AProcessOfAnotherNamespaceIsNoneOfThisOne) {
  LocalProcesses processes;
  processes.Add(kClass, 0);
  EXPECT_FALSE(MayBe(processes, *OwnIdentity(), kClass));
}

// A process counts once for each class, so this one reaches the limit.
TEST(LocalProcessesTest, LivingOnesUpToTheLimitAndNotPastIt) {
  LocalProcesses processes;
  const ProcessIdentity own = *OwnIdentity();
  const size_t limit = LocalProcesses::kMaxProcesses;
  for (size_t i = 0; i < limit; ++i) processes.Add(i, getpid());
  EXPECT_TRUE(MayBe(processes, own, limit - 1));
  processes.Add(limit, getpid());
  EXPECT_FALSE(MayBe(processes, own, limit));
  processes.Add(0, getpid());
  EXPECT_TRUE(MayBe(processes, own, 0));
}

TEST(LocalProcessesTest, EndedOnesGiveWay) {
  LocalProcesses processes;
  const ProcessIdentity own = *OwnIdentity();
  const size_t limit = LocalProcesses::kMaxProcesses;
  {
    const Sleeper sleeper;
    processes.Add(kClass, static_cast<pid_t>(sleeper.OwnName().pid));
  }
  for (size_t i = 0; i < limit; ++i) processes.Add(i, getpid());
  EXPECT_TRUE(MayBe(processes, own, limit - 1));
}

}  // namespace
}  // namespace plimsoll::services
