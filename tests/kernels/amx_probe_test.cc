// The probe of AMX agrees with the paths that the backend offers.
#include "kernels/cpu/amx_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/target.h"

namespace plimsoll::kernels {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;

TEST(AmxProbeTest, OnlyTilesThatRunAreAPath) {
  const AmxState state = ProbeAmx();
  const bool has_path =
      testing::Value(AvailableCpuTargets(), Contains(EndsWith("_AMX")));
  if (state != AmxState::kRuns) {
    EXPECT_FALSE(has_path) << static_cast<int>(state);
  } else {
    EXPECT_EQ(has_path,
              testing::Value(AvailableCpuTargets(), Contains("AVX3_DL")));
  }
}

TEST(AmxProbeTest, ASecondProbeSaysTheSame) {
  const AmxState first = ProbeAmx();
  EXPECT_EQ(ProbeAmx(), first);
}

}  // namespace
}  // namespace plimsoll::kernels
