// An abort has a reason on stderr, and stays an abort.
#include "services/host/crash/abort_message.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace plimsoll::services {
namespace {

void Abort() {
  SayWhatAborts();
  std::abort();
}

TEST(AbortMessageDeathTest, AnAbortSaysSoAndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(Abort(), ::testing::KilledBySignal(SIGABRT),
              "plimsoll: the process ends at once .SIGABRT.: .*no memory");
}

}  // namespace
}  // namespace plimsoll::services
