#include "planner/layout/change.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::planner {
namespace {

TEST(ChangeTest, RowsAreHalvedUntilItHelpsOrTheyAreFewest) {
  std::vector<int64_t> tried;
  const auto try_all = [&](int64_t n_ubatch, int64_t enough) {
    tried.clear();
    TrySmallerUbatch(n_ubatch, [&](const Change& change) {
      tried.push_back(change.n_ubatch.value());
      return change.n_ubatch.value() <= enough;
    });
    return tried;
  };
  EXPECT_EQ(try_all(512, 128), (std::vector<int64_t>{256, 128}));
  EXPECT_EQ(try_all(100, 0), (std::vector<int64_t>{50, 25, kSmallestUbatch}));
  EXPECT_EQ(try_all(kSmallestUbatch, 0), std::vector<int64_t>{});
}

TEST(ChangeTest, AsManySlotsRemainAsFit) {
  for (int64_t n_slots = 1; n_slots < 20; ++n_slots) {
    for (int64_t room = 0; room < n_slots; ++room) {
      const std::optional<Change> change = MostSlots(
          n_slots, [&](const Change& tried) { return *tried.n_slots <= room; });
      ASSERT_EQ(change.has_value(), room > 0) << n_slots << ' ' << room;
      if (change) {
        EXPECT_EQ(change->n_slots, room) << n_slots;
      }
    }
  }
}

TEST(ChangeTest, EveryReductionLeavesOutWhatIsSmallAlready) {
  LoadOptions options;
  options.n_ubatch = 512;
  options.n_slots = 4;
  options.n_parked = 2;
  EXPECT_EQ(EveryReduction(options, DType::kQ8_0),
            (Change{.n_ubatch = kSmallestUbatch,
                    .kv_type = DType::kQ8_0,
                    .n_parked = 0,
                    .n_slots = 1}));
  options.n_ubatch = kSmallestUbatch;
  options.n_slots = 1;
  options.n_parked = 0;
  EXPECT_TRUE(EveryReduction(options, std::nullopt).empty());
}

}  // namespace
}  // namespace plimsoll::planner
