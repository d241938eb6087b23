#include "base/sync/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

FaultPlan Parsed(absl::string_view text) {
  absl::StatusOr<FaultPlan> plan = ParseFaultPlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// Which of the next `n` passes of a point fire, from 1 on.
std::vector<int> FiredOf(absl::string_view point, int n) {
  std::vector<int> fired;
  for (int pass = 1; pass <= n; ++pass) {
    if (FaultFires(point)) fired.push_back(pass);
  }
  return fired;
}

TEST(FaultPlanTest, HasPassesProbabilitiesAndASeed) {
  const FaultPlan plan =
      Parsed("journal.append=3, model.read=0.25,*=0.;seed=7");
  ASSERT_EQ(plan.rules.size(), 3u);
  EXPECT_EQ(plan.rules[0].point, "journal.append");
  EXPECT_EQ(plan.rules[0].pass, 3);
  EXPECT_EQ(plan.rules[1].point, "model.read");
  EXPECT_EQ(plan.rules[1].pass, 0);
  EXPECT_EQ(plan.rules[1].probability, 0.25);
  EXPECT_EQ(plan.rules[2].point, "*");
  EXPECT_EQ(plan.seed, 7u);
  EXPECT_TRUE(Parsed("").rules.empty());
}

TEST(FaultPlanTest, APartThatIsNotWellFormedIsNamed) {
  for (const char* text : {"a", "a=", "a=x", "=1", "a=-1", "a=1.5", "a=1,b"}) {
    const auto plan = ParseFaultPlan(text);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(std::string(ParseFaultPlan("a=1;seed=x").status().message()),
              HasSubstr("\"seed=x\""));
}

TEST(FaultTest, WithoutAPlanNothingFiresAndNothingCounts) {
  EXPECT_FALSE(FaultFires("one"));
  const ScopedFaults faults({});
  EXPECT_TRUE(faults.Counts().empty());
}

TEST(FaultTest, ThePassOfARuleFiresAlone) {
  const ScopedFaults faults(Parsed("one=3"));
  EXPECT_THAT(FiredOf("one", 10), ElementsAre(3));
  EXPECT_THAT(FiredOf("two", 2), ElementsAre());
  EXPECT_EQ(faults.CountOf("one").passes, 10);
  EXPECT_EQ(faults.CountOf("one").fired, 1);
  EXPECT_EQ(faults.CountOf("two").passes, 2);
  EXPECT_EQ(faults.CountOf("three").passes, 0);
  EXPECT_EQ(faults.Counts().size(), 2u);
}

TEST(FaultTest, ARuleOfItsOwnIsStrongerThanTheOneForAll) {
  const ScopedFaults faults(Parsed("two=0,*=1.,one=0.0"));
  EXPECT_TRUE(FiredOf("one", 5).empty());
  EXPECT_TRUE(FiredOf("two", 5).empty());
  EXPECT_EQ(FiredOf("three", 5).size(), 5u);
}

TEST(FaultTest, ASeedFiresTheSamePassesInAnyOrderOfPoints) {
  std::vector<int> one, two;
  {
    const ScopedFaults faults(Parsed("*=0.1;seed=7"));
    one = FiredOf("one", 1'000);
    two = FiredOf("two", 1'000);
  }
  // Within four standard deviations.
  EXPECT_GT(one.size(), 60u);
  EXPECT_LT(one.size(), 140u);
  EXPECT_NE(one, two);
  {
    const ScopedFaults faults(Parsed("*=0.1;seed=7"));
    EXPECT_EQ(FiredOf("two", 1'000), two);
    EXPECT_EQ(FiredOf("one", 1'000), one);
  }
  const ScopedFaults faults(Parsed("*=0.1;seed=8"));
  EXPECT_NE(FiredOf("one", 1'000), one);
}

TEST(FaultTest, ThreadsPassAPointTogether) {
  const ScopedFaults faults(Parsed("one=500"));
  std::atomic<int> n_fired = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&n_fired] {
      n_fired += static_cast<int>(FiredOf("one", 250).size());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_fired, 1);
  EXPECT_EQ(faults.CountOf("one").passes, 1'000);
}

TEST(FaultTest, ThePointsOfABuildFireOrAreConstants) {
  const ScopedFaults faults(Parsed("one=1."));
  EXPECT_EQ(PLIMSOLL_FAULT("one"), kHasFaults);
  EXPECT_EQ(faults.CountOf("one").fired, kHasFaults ? 1 : 0);
}

// False under an emulator that can't start its programs itself.
bool CanStartItself() {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "fault_test", "--gtest_filter=-*", nullptr);
    _exit(1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0;
}

TEST(FaultDeathTest, APlanOfTheEnvironmentIsThereFromTheBeginning) {
  if (!CanStartItself()) GTEST_SKIP() << "a program can't start itself here";
  EXPECT_EXIT(
      {
        setenv("PLIMSOLL_FAULTS", "one=x", 1);
        execl("/proc/self/exe", "fault_test", "--gtest_list_tests", nullptr);
      },
      ::testing::ExitedWithCode(2), "\"one=x\" is no POINT=PASS");
}

TEST(FaultDeathTest, ThereIsOnePlanAtATime) {
  const ScopedFaults faults(Parsed("one=1"));
  EXPECT_DEATH(ScopedFaults(Parsed("two=1")), "there is a plan of faults");
}

// The test below runs it in a process that begins with a plan.
TEST(FaultProcessTest, WithoutAScopeThePlanOfTheEnvironmentCounts) {
  EXPECT_EQ(FaultFires("one"), std::getenv("PLIMSOLL_FAULTS") != nullptr);
  EXPECT_FALSE(FaultFires("one"));
}

TEST(FaultDeathTest, APlanOfTheEnvironmentFiresAndTellsSo) {
  if (!CanStartItself()) GTEST_SKIP() << "a program can't start itself here";
  EXPECT_EXIT(
      {
        setenv("PLIMSOLL_FAULTS", "one=1", 1);
        execl("/proc/self/exe", "fault_test", "--gtest_also_run_disabled_tests",
              "--gtest_filter=FaultProcessTest.*", nullptr);
      },
      ::testing::ExitedWithCode(0), "fault: one fails at pass 1");
}

}  // namespace
}  // namespace plimsoll
