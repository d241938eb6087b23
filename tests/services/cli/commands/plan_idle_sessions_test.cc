// `plimsoll plan` with a number of idle sessions, or with bytes for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/commands/cli.h"
#include "tests/services/cli/run_cli.h"
#include "tests/worker/random_model.h"
#include "worker/device/model_file.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PlanIdleSessionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto opened = worker::ModelFile::Open(file_.path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto slot =
        planner::KvCacheBytes((*opened)->shape(), {.n_ctx = 4'096});
    ASSERT_TRUE(slot.ok()) << slot.status();
    place_ = slot->PlaceBytes();
    ASSERT_GT(place_, 1);
  }

  CliResult Plan(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"plan", file_.path(), "--n-ctx", "64"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCli(args);
  }

  const TemporaryFile file_{RandomModelBytes(FindRandomModel("lfm2_q8_0"))};
  int64_t place_ = 0;
};

TEST_F(PlanIdleSessionsTest, SaysTheirNumberAndTheirBytes) {
  const std::vector<std::vector<std::string>> same = {
      {"--idle-session-bytes", absl::StrCat(4 * place_ - 1), "-o", "json"},
      {"--idle-sessions", "3", "-o", "json"}};
  for (const std::vector<std::string>& flags : same) {
    SCOPED_TRACE(flags.front());
    const CliResult plan = Plan(flags);
    EXPECT_EQ(plan.code, kExitOk) << plan.err;
    EXPECT_THAT(plan.out,
                AllOf(HasSubstr("\"n_idle_sessions\": 3"),
                      HasSubstr(absl::StrCat("\"idle_session_bytes\": \"",
                                             3 * place_, "\""))));
  }
  const CliResult table = Plan({"--idle-sessions", "3"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("+ 3 idle) x "),
                               HasSubstr("3 idle sessions take ")));
}

TEST_F(PlanIdleSessionsTest, TakesUnits) {
  const CliResult plan = Plan({"--idle-session-bytes", "1MiB", "-o", "json"});
  EXPECT_EQ(plan.code, kExitOk) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr(absl::StrCat("\"n_idle_sessions\": ",
                                               (1 << 20) / place_)));
}

TEST_F(PlanIdleSessionsTest, GivesAPodTheirNumber) {
  const CliResult pod =
      Plan({"--idle-session-bytes", absl::StrCat(2 * place_), "-o", "k8s"});
  EXPECT_EQ(pod.code, kExitOk) << pod.err;
  EXPECT_THAT(pod.out, HasSubstr("\"--idle-sessions=2\""));
}

TEST_F(PlanIdleSessionsTest, RefusesBytesForLessThanOne) {
  const CliResult few =
      Plan({"--idle-session-bytes", absl::StrCat(place_ - 1)});
  EXPECT_NE(few.code, kExitOk);
  EXPECT_THAT(few.err, HasSubstr(absl::StrCat("take ", place_, ";")));
}

TEST_F(PlanIdleSessionsTest, RefusesANumberBesideBytes) {
  const CliResult both =
      Plan({"--idle-session-bytes", "1MiB", "--idle-sessions", "2"});
  EXPECT_EQ(both.code, kExitUsage);
  EXPECT_THAT(both.err, HasSubstr("stands beside --idle-sessions; leave one"));
  const CliResult none =
      Plan({"--idle-session-bytes", "1MiB", "--idle-sessions", "0"});
  EXPECT_EQ(none.code, kExitOk) << none.err;
}

}  // namespace
}  // namespace plimsoll::cli
