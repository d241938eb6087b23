// Profiles: the committed one, allocation rules, and fields that make no sense.
#include "planner/layout/device_profile.h"

#include <gtest/gtest.h>

#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

TEST(DeviceProfileTest, TheCommittedCpuProfileIsValid) {
  const DeviceProfile profile = CommittedCpuProfile();
  EXPECT_TRUE(ValidateProfile(profile).ok());
  EXPECT_EQ(profile.id, "cpu");
  EXPECT_EQ(profile.storage.size(), 26u);
  ASSERT_NE(FindStorageRule(profile, DType::kQ4_K), nullptr);
  EXPECT_EQ(FindStorageRule(profile, DType::kQ8_1), nullptr);
}

TEST(DeviceProfileTest, TheCommittedGpuProfileKeepsTensorsAsInTheFile) {
  const DeviceProfile profile = CommittedGpuProfile();
  EXPECT_TRUE(ValidateProfile(profile).ok());
  for (const StorageRule& rule : CommittedCpuProfile().storage) {
    EXPECT_NE(FindStorageRule(profile, rule.dtype), nullptr);
  }
  EXPECT_EQ(profile.storage.size(), CommittedCpuProfile().storage.size());
  for (const StorageRule& rule : profile.storage) {
    EXPECT_EQ(rule.row_multiple, 1);
  }
  EXPECT_EQ(profile.kv_types.size(), 6u);
  // Nobody has measured it.
  EXPECT_EQ(profile.runtime_basis, Basis::kEstimated);
  EXPECT_GE(profile.runtime_bytes, int64_t{512} << 20);
}

TEST(DeviceProfileTest, AllocationsAreRoundedByTheRule) {
  DeviceProfile profile = CommittedCpuProfile();
  EXPECT_EQ(*AllocatedBytes(profile, 0), 0);
  EXPECT_EQ(*AllocatedBytes(profile, 1), 2 << 20);
  EXPECT_EQ(*AllocatedBytes(profile, 2 << 20), 2 << 20);
  profile.allocation = AllocationRule::kExact;
  EXPECT_EQ(*AllocatedBytes(profile, 12'345), 12'345);
  EXPECT_EQ(*AllocatedBytes(profile, kMax), kMax);
  profile.allocation = AllocationRule::kPow2;
  EXPECT_EQ(*AllocatedBytes(profile, 0), 0);
  EXPECT_EQ(*AllocatedBytes(profile, 1), 1);
  EXPECT_EQ(*AllocatedBytes(profile, 11'141'120), 16 << 20);
  EXPECT_EQ(*AllocatedBytes(profile, int64_t{1} << 62), int64_t{1} << 62);
}

TEST(DeviceProfileTest, AllocationsReportOverflowAndNonsense) {
  DeviceProfile profile = CommittedCpuProfile();
  EXPECT_TRUE(absl::IsOutOfRange(AllocatedBytes(profile, kMax).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(AllocatedBytes(profile, -1).status()));
  profile.granularity_bytes = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(AllocatedBytes(profile, 1).status()));
  profile.allocation = AllocationRule::kPow2;
  EXPECT_TRUE(absl::IsOutOfRange(
      AllocatedBytes(profile, (int64_t{1} << 62) + 1).status()));
}

TEST(DeviceProfileTest, FieldsThatMakeNoSenseAreNamed) {
  const auto error = [](auto change) {
    DeviceProfile profile = CommittedCpuProfile();
    change(profile);
    const absl::Status status = ValidateProfile(profile);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const auto names = [](const std::string& message, const char* field) {
    return message.find(field) != std::string::npos;
  };
  EXPECT_TRUE(names(error([](auto& p) { p.total_bytes = -1; }), "total_bytes"));
  EXPECT_TRUE(names(error([](auto& p) { p.free_bytes = -1; }), "free_bytes"));
  EXPECT_TRUE(names(error([](auto& p) { p.alignment = 48; }), "alignment"));
  EXPECT_TRUE(names(error([](auto& p) { p.alignment = 0; }), "alignment"));
  EXPECT_TRUE(
      names(error([](auto& p) { p.granularity_bytes = 0; }), "granularity"));
  EXPECT_TRUE(
      names(error([](auto& p) { p.runtime_bytes = -1; }), "runtime_bytes"));
  EXPECT_TRUE(
      names(error([](auto& p) { p.message_bytes = -1; }), "message_bytes"));
  EXPECT_TRUE(names(error([](auto& p) { p.storage[0].row_multiple = 0; }),
                    "row_multiple"));
  EXPECT_TRUE(names(error([](auto& p) { p.workspace.activation_block = 0; }),
                    "activation_block"));
  EXPECT_TRUE(names(error([](auto& p) { p.workspace.min_logits_rows = 0; }),
                    "min_logits_rows"));
}

}  // namespace
}  // namespace plimsoll::planner
