// A server does not end because of an order of locks.
#include "services/host/lock_checks.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/synchronization/mutex.h"

namespace plimsoll::services {
namespace {

// Takes two locks in both orders, as two threads in a deadlock would.
void LockBothWays() {
  absl::Mutex first;
  absl::Mutex second;
  {
    absl::MutexLock outer(&first);
    absl::MutexLock inner(&second);
  }
  absl::MutexLock outer(&second);
  absl::MutexLock inner(&first);
}

TEST(LockChecksTest, AServerDoesNotEndForAnOrderOfLocks) {
#ifndef NDEBUG
  GTEST_SKIP() << "a debug build checks";
#endif
  EXPECT_EXIT(
      {
        DisableLockChecks();
        LockBothWays();
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace plimsoll::services
