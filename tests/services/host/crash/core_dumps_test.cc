// A process that forbids core dumps leaves none when it crashes.
#include "services/host/crash/core_dumps.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace plimsoll::services {
namespace {

void SetLimit(rlim_t soft, rlim_t hard) {
  const rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
  if (setrlimit(RLIMIT_CORE, &limit) != 0) _exit(3);
}

// Ends this process with 0 if both limits are `wanted`.
[[noreturn]] void ExitIfLimit(rlim_t wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) _exit(4);
  _exit(limit.rlim_cur == wanted && limit.rlim_max == wanted ? 0 : 5);
}

TEST(CoreDumpsTest, TheLimitIsOneByteForGood) {
  rlimit mine = {};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &mine), 0);
  if (mine.rlim_max < kNoCoreBytes) GTEST_SKIP() << "there are none here";
  EXPECT_EXIT(
      {
        SetLimit(mine.rlim_max, mine.rlim_max);
        ForbidCoreDumps();
        ForbidCoreDumps();
        ExitIfLimit(kNoCoreBytes);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(CoreDumpsTest, ALimitOfNothingStays) {
  EXPECT_EXIT(
      {
        SetLimit(0, 0);
        ForbidCoreDumps();
        ExitIfLimit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

// The system says in the status of a process whether it has dumped.
TEST(CoreDumpsTest, ACrashDumpsNothing) {
  const auto has_dumped = [](int status) {
    return WIFSIGNALED(status) && WCOREDUMP(status);
  };
  EXPECT_EXIT(
      {
        ForbidCoreDumps();
        std::signal(SIGABRT, SIG_DFL);
        std::abort();
      },
      [&](int status) {
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
               !has_dumped(status);
      },
      "");
}

}  // namespace
}  // namespace plimsoll::services
