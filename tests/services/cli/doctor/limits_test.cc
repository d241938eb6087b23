// Diagnoses of limits at them and past them.
#include "services/cli/doctor/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>

#include "tests/worker/fake_tree.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DescriptorCheckTest, EveryConnectionThatAServerTakesHasOne) {
  LimitReadings limits{.n_descriptors = kNeededDescriptors};
  EXPECT_EQ(CheckDescriptors(limits).health, Health::kOk);
  EXPECT_EQ(CheckDescriptors(limits).found, "at most 4,176");
  limits.n_descriptors = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CheckDescriptors(limits).found, "no limit");
  limits.n_descriptors = kNeededDescriptors - 1;
  const Diagnosis found = CheckDescriptors(limits);
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.found, HasSubstr("4,111 connections"));
  EXPECT_THAT(found.fix, AllOf(HasSubstr("ulimit -n 4176"),
                               HasSubstr("LimitNOFILE=4176")));
}

TEST(DescriptorCheckTest, FewerThanAServerHasForItselfIsAnError) {
  LimitReadings limits{.n_descriptors = kOwnDescriptors};
  EXPECT_EQ(CheckDescriptors(limits).health, Health::kWarning);
  limits.n_descriptors = kOwnDescriptors - 1;
  EXPECT_EQ(CheckDescriptors(limits).health, Health::kError);
  EXPECT_THAT(CheckDescriptors(limits).fix, HasSubstr("ulimit -n"));
}

TEST(ThreadCheckTest, ThreadsThatStartAreOk) {
  LimitReadings limits{.n_threads = 30};
  EXPECT_EQ(CheckThreadLimit(limits).health, Health::kOk);
  EXPECT_EQ(CheckThreadLimit(limits).found,
            "a worker's 30 could be started; no cgroup limits them");
  limits.tasks = worker::CgroupTasks{1'000, 12, "/cg/pids.max"};
  EXPECT_EQ(CheckThreadLimit(limits).found,
            "a worker's 30 could be started; /cg/pids.max allows 1,000, 12 are "
            "in use");
  EXPECT_THAT(CheckThreadLimit(limits).fix, IsEmpty());
}

TEST(ThreadCheckTest, ThreadsThatDoNotAreAnError) {
  const Diagnosis found = CheckThreadLimit(
      {.n_threads = 30,
       .threads = absl::ResourceExhaustedError("it needs 30 and gets 7"),
       .tasks = worker::CgroupTasks{20, 13, "/cg/pids.max"}});
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.found, AllOf(HasSubstr("it needs 30 and gets 7"),
                                 HasSubstr("/cg/pids.max allows 20")));
  EXPECT_THAT(found.fix, AllOf(HasSubstr("pids.max"), HasSubstr("ulimit -u")));
}

TEST(LimitReadingsTest, TheyAreThisProcessAndTheTree) {
  const testing::FakeTree tree;
  tree.Write("/proc/self/cgroup", "0::/");
  tree.Write("/sys/fs/cgroup/pids.max", "500");
  tree.Write("/sys/fs/cgroup/pids.current", "3");
  const LimitReadings limits = ReadLimits(tree.root());
  rlimit descriptors{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  EXPECT_EQ(static_cast<rlim_t>(limits.n_descriptors), descriptors.rlim_cur);
  EXPECT_GT(limits.n_threads, 20);
  EXPECT_TRUE(limits.threads.ok()) << limits.threads;
  ASSERT_TRUE(limits.tasks.has_value());
  EXPECT_EQ(limits.tasks->limit, 500);
}

}  // namespace
}  // namespace plimsoll::cli
