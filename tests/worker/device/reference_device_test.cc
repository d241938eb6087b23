// The reference backend as a device: engines on it say what engines on the CPU
// say, for every family of models.
#include "worker/device/reference_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FamilyModels;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::RandomModels;
using ::plimsoll::testing::TemporaryFile;

Generated ScoredBy(const ComputeDevice& device, const TemporaryFile& file) {
  EngineSetup setup;
  setup.device = &device;
  auto engine = LoadEngine(file.path(), setup);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  GenerateOptions options = Greedy(RandomIds(40, 7), 3);
  options.prompt_logprobs = true;
  return Generate(**engine, options);
}

class ReferenceDeviceTest : public ::testing::TestWithParam<RandomModel> {};

INSTANTIATE_TEST_SUITE_P(Goldens, ReferenceDeviceTest,
                         ::testing::ValuesIn(RandomModels()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Families, ReferenceDeviceTest,
                         ::testing::ValuesIn(FamilyModels()),
                         [](const auto& test) { return test.param.name; });

TEST_P(ReferenceDeviceTest, SaysWhatTheCpuSaysInExactPrecision) {
  const TemporaryFile file(RandomModelBytes(GetParam()));
  const Generated cpu = ScoredBy(LocalCpu(), file);
  const Generated reference = ScoredBy(ReferenceCpu(), file);
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  ASSERT_EQ(reference.prompt_logprobs.size(), 39u);
  ASSERT_EQ(cpu.prompt_logprobs.size(), 39u);
  for (size_t i = 0; i < 39; ++i) {
    EXPECT_NEAR(reference.prompt_logprobs[i], cpu.prompt_logprobs[i], 0.001)
        << i;
  }
  ASSERT_EQ(reference.tokens.size(), 3u);
  EXPECT_NEAR(reference.tokens[0].logprob, cpu.tokens[0].logprob, 0.001);
}

TEST(ReferenceCpuTest, TheReferenceHasTheHostsMemoryAndTheFilesRows) {
  EXPECT_TRUE(ReferenceCpu().is_host());
  const planner::DeviceProfile profile = ReferenceCpu().Profile();
  EXPECT_EQ(profile.id, "reference");
  EXPECT_EQ(profile.total_bytes, LocalCpu().Profile().total_bytes);
  EXPECT_GT(profile.free_bytes, 0);
  for (const planner::StorageRule& rule : profile.storage) {
    EXPECT_EQ(rule.row_multiple, 1);
  }
}

}  // namespace
}  // namespace plimsoll::worker
