// `plimsoll plan --cpu-experts`, for a device of the catalogue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/cli/commands/cli.h"
#include "tests/services/cli/run_cli.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanExpertsTest : public ::testing::Test {
 protected:
  CliResult Plan(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"plan", file_.path(), "--n-ctx", "64"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCli(args);
  }

  const TemporaryFile file_{RandomModelBytes(FindRandomModel("qwen3moe_q4_0"))};
};

TEST_F(PlanExpertsTest, SaysWhatLiesInHostMemoryAndWhy) {
  const CliResult two = Plan({"--device", "t4", "--cpu-experts", "2"});
  EXPECT_EQ(two.code, kExitOk) << two.err;
  EXPECT_THAT(two.out,
              AllOf(HasSubstr("experts_host"), HasSubstr("experts_workspace"),
                    HasSubstr("the experts of 2 of 3 layers were asked")));
  const CliResult all =
      Plan({"--device", "t4", "--cpu-experts", "all", "-o", "json"});
  EXPECT_EQ(all.code, kExitOk) << all.err;
  EXPECT_THAT(all.out, AllOf(HasSubstr("\"n_cpu_experts\": 3"),
                             HasSubstr("\"cpu_experts_reason\": \"the")));
  const CliResult any =
      Plan({"--device", "t4", "--cpu-experts", "auto", "-o", "json"});
  EXPECT_EQ(any.code, kExitOk) << any.err;
  EXPECT_THAT(any.out, AllOf(Not(HasSubstr("n_cpu_experts")),
                             HasSubstr("room for all experts")));
}

TEST_F(PlanExpertsTest, WritesThemForAPod) {
  const CliResult pod =
      Plan({"--device", "t4", "--cpu-experts", "1", "-o", "k8s"});
  EXPECT_EQ(pod.code, kExitOk) << pod.err;
  EXPECT_THAT(pod.out, HasSubstr("\"--cpu-experts=1\""));
}

TEST_F(PlanExpertsTest, IsRefusedOnTheCpuAndForWhatIsNoNumber) {
  const CliResult cpu = Plan({"--cpu-experts", "auto"});
  EXPECT_NE(cpu.code, kExitOk);
  EXPECT_THAT(cpu.err, HasSubstr("the device is the CPU"));
  const CliResult bad = Plan({"--device", "t4", "--cpu-experts", "some"});
  EXPECT_EQ(bad.code, kExitUsage);
  EXPECT_THAT(bad.err, HasSubstr("write all, auto, or 0 to 512"));
}

}  // namespace
}  // namespace plimsoll::cli
