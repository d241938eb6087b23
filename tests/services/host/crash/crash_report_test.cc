// A crash has a reason and its calls on stderr, and stays a crash.
#include "services/host/crash/crash_report.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "tests/sanitized.h"

namespace plimsoll::services {
namespace {

void Abort() {
  ReportCrashes();
  std::abort();
}

void Raise(int signal) {
  ReportCrashes();
  std::raise(signal);
}

TEST(CrashReportDeathTest, AnAbortSaysSoAndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(Abort(), ::testing::KilledBySignal(SIGABRT),
              "plimsoll: the process ends at once .SIGABRT.: .*no memory.*\n"
              ".*\\+0x");
}

TEST(CrashReportDeathTest, ACrashNamesItsSignalAndItsCalls) {
  if (testing::kIsSanitized) GTEST_SKIP() << "a sanitizer reports crashes";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(Raise(SIGSEGV), ::testing::KilledBySignal(SIGSEGV),
              "plimsoll: the process crashed .SIGSEGV.: .*bug.*\n.*\\+0x");
  EXPECT_EXIT(Raise(SIGILL), ::testing::KilledBySignal(SIGILL),
              "SIGILL.: this CPU does not know an instruction.*\n.*\\+0x");
  EXPECT_EXIT(Raise(SIGFPE), ::testing::KilledBySignal(SIGFPE),
              "plimsoll: the process crashed .SIGFPE.: .*\n.*\\+0x");
}

TEST(CrashReportDeathTest, ASignalThatIsHandledStaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto handled = [] {
    std::signal(SIGFPE, [](int) { std::_Exit(7); });
    ReportCrashes();
    std::raise(SIGFPE);
  };
  EXPECT_EXIT(handled(), ::testing::ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace plimsoll::services
