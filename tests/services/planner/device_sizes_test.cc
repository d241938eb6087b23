// Which of the sizes that workers name counts, and for how long.
#include "services/planner/device_sizes.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

const absl::Time kStart = absl::UnixEpoch();

bool HoldsNothing(const std::string& /*holder*/) { return false; }

TEST(DeviceSizesTest, TheSmallestCounts) {
  DeviceSizes sizes;
  EXPECT_EQ(sizes.Smallest(), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(sizes.Say("a", 500, kStart));
  EXPECT_TRUE(sizes.Say("b", 900, kStart));
  EXPECT_EQ(sizes.Smallest(), 500);
  EXPECT_FALSE(sizes.Say("a", 500, kStart));
  EXPECT_TRUE(sizes.Say("a", 700, kStart)) << "it may correct itself";
  EXPECT_EQ(sizes.Smallest(), 700);
}

TEST(DeviceSizesTest, WhoHoldsNothingIsForgottenAfterATime) {
  DeviceSizes sizes;
  sizes.Say("a", 500, kStart);
  sizes.Say("b", 600, kStart);
  sizes.Say("c", 900, kStart + absl::Seconds(1));
  sizes.Forget(kStart, HoldsNothing);
  EXPECT_EQ(sizes.Smallest(), 500);
  sizes.Forget(kStart + absl::Seconds(1),
               [](const std::string& holder) { return holder == "b"; });
  EXPECT_EQ(sizes.Smallest(), 600);
  EXPECT_FALSE(sizes.Knows("a"));
  EXPECT_TRUE(sizes.Knows("b"));
  EXPECT_TRUE(sizes.Knows("c"));
}

TEST(DeviceSizesTest, BeyondTheLimitTheLargestIsForgotten) {
  DeviceSizes sizes;
  const auto limit = static_cast<int64_t>(DeviceSizes::kMaxHolders);
  for (int64_t i = 1; i <= limit; ++i) {
    EXPECT_EQ(sizes.Knows("nobody"), false);
    sizes.Say(absl::StrCat(i), i, kStart);
  }
  sizes.Say("small", 0, kStart);
  EXPECT_EQ(sizes.Smallest(), 0);
  EXPECT_TRUE(sizes.Knows("nobody")) << "nothing is wanted any more";
  sizes.Say("large", limit + 1, kStart);
  sizes.Say("small", limit + 2, kStart);
  EXPECT_EQ(sizes.Smallest(), 1);
}

}  // namespace
}  // namespace plimsoll::services
