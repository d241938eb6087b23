// `plimsoll plan` on files that are made here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "services/cli/commands/cli.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest()
      : model_(Write("plan_tiny.gguf",
                     planner::BuilderOf(planner::TinyModel()).Build())) {}

  static std::string Write(const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  // The plan of the model with 64 tokens of context, in the same memory
  // whatever the machine has left.
  CliResult Plan(std::vector<std::string> more) const {
    std::vector<std::string> args = {
        "plan", model_, "--n-ctx", "64", "--device-memory", "1GiB"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCli(args);
  }

  const std::string model_;
};

// A projector for images of 28 x 28 in patches of 14 x 14.
planner::GgufBuilder Projector() {
  planner::GgufBuilder builder;
  builder.Text("general.architecture", "clip")
      .U32("clip.vision.image_size", 28)
      .U32("clip.vision.patch_size", 14)
      .U32("clip.vision.embedding_length", 8)
      .U32("clip.vision.feed_forward_length", 16)
      .U32("clip.vision.attention.head_count", 2);
  builder.Tensor("v.a", DType::kF16, {8, 4});
  return builder;
}

TEST_F(PlanTest, CountsAProjectorBesideTheModel) {
  const std::string projector = Write("mmproj.gguf", Projector().Build());
  const CliResult plan = Plan({"--projector", projector, "-o", "json"});
  EXPECT_EQ(plan.code, kExitOk) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("\"name\": \"projector\""),
                              HasSubstr("\"bytes\": \"64\""),
                              HasSubstr("\"name\": \"projector_workspace\""),
                              HasSubstr("\"bytes\": \"768\"")));
  // With the first of several models only.
  const CliResult set =
      Plan({"--with", model_, "--projector", projector, "-o", "json"});
  EXPECT_EQ(set.code, kExitOk) << set.err;
  const size_t first = set.out.find("\"projector\"");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(set.out.find("\"projector\"", first + 1), std::string::npos);
}

TEST_F(PlanTest, AProjectorThatIsNoneIsNamed) {
  const CliResult model = Plan({"--projector", model_});
  EXPECT_EQ(model.code, kExitError);
  EXPECT_THAT(model.err,
              AllOf(HasSubstr("plan_tiny.gguf"), HasSubstr("no projector")));
  const CliResult missing = Plan({"--projector", "/nowhere/mmproj.gguf"});
  EXPECT_EQ(missing.code, kExitError);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/mmproj.gguf"));
}

TEST_F(PlanTest, SharesLayersAmongTheDevicesThatAreNamed) {
  const auto plan = [this](const std::string& memory) {
    return RunCli({"plan", model_, "--n-ctx", "64", "--device", "cpu,t4,t4",
                   "--device-memory", memory});
  };
  // The first one has no room for its process.
  const CliResult fits = plan("1MiB,8GiB,8GiB");
  EXPECT_EQ(fits.code, kExitOk) << fits.err;
  EXPECT_THAT(fits.out, AllOf(HasSubstr("  t4      0-1 "), HasSubstr("FITS"),
                              Not(HasSubstr("cpu"))));
  const CliResult refused = plan("1MiB");
  EXPECT_EQ(refused.code, kExitDoesNotFit);
  EXPECT_THAT(refused.out,
              AllOf(HasSubstr("DOES NOT FIT: 2 layers find no device"),
                    HasSubstr("the last device lacks ")));
}

TEST_F(PlanTest, TakesWeightsOfAnotherType) {
  EXPECT_THAT(Plan({"-o", "json"}).out, Not(HasSubstr("weight_type")));
  const CliResult plan = Plan({"--weights", "q8_0", "-o", "json"});
  EXPECT_EQ(plan.code, kExitOk) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("\"weight_type\": \"ELEMENT_TYPE_Q8_0\""));
  EXPECT_EQ(Plan({"--weights", "file", "-o", "json"}).out,
            Plan({"-o", "json"}).out);
  const CliResult bad = Plan({"--weights", "q9"});
  EXPECT_EQ(bad.code, kExitUsage);
  EXPECT_THAT(bad.err, HasSubstr("'q9' is not an element type"));
}

TEST_F(PlanTest, WritesThePodThatAWorkerOfTheModelNeeds) {
  const CliResult plan = Plan({"--slots", "2", "--threads", "3", "-o", "k8s"});
  EXPECT_EQ(plan.code, kExitOk) << plan.err;
  EXPECT_THAT(plan.out,
              AllOf(HasSubstr("\"--model=plan_tiny=/models/plan_tiny.gguf\""),
                    HasSubstr("\"--n-ctx=64\""), HasSubstr("\"--slots=2\""),
                    HasSubstr("cpu: \"3\""), Not(HasSubstr("Claim"))));
  const CliResult gpu = Plan({"--device", "t4", "-o", "k8s"});
  EXPECT_EQ(gpu.code, kExitOk) << gpu.err;
  EXPECT_THAT(gpu.out, AllOf(HasSubstr("\"--device=cuda:0\""),
                             HasSubstr("kind: ResourceClaimTemplate")));
}

TEST_F(PlanTest, WritesNoPodThatAWorkerWouldRefuse) {
  // Messages alone take that much.
  const CliResult full =
      RunCli({"plan", model_, "--device-memory", "128MiB", "-o", "k8s"});
  EXPECT_EQ(full.code, kExitDoesNotFit);
  EXPECT_EQ(full.out, "");
  const CliResult policy = Plan({"--policy", "dense", "-o", "k8s"});
  EXPECT_EQ(policy.code, kExitError);
  EXPECT_EQ(policy.out, "");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--with", model_},
        {"--split", "1GiB,1GiB"},
        {"--device", "t4,t4"}}) {
    std::vector<std::string> args = more;
    args.insert(args.end(), {"-o", "k8s"});
    EXPECT_EQ(Plan(args).code, kExitUsage) << more.front();
  }
  const CliResult name =
      RunCli({"plan", Write("odd name.gguf", ""), "-o", "k8s"});
  EXPECT_EQ(name.code, kExitUsage);
  EXPECT_THAT(name.err, HasSubstr("rename it"));
}

}  // namespace
}  // namespace plimsoll::cli
