// The solver finds what trying every context finds.
#include "planner/layout/auto_context.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

DeviceProfile ProfileWith(AllocationRule rule) {
  DeviceProfile profile = CommittedCpuProfile();
  profile.allocation = rule;
  return profile;
}

PlanInputs InputsOf(const ModelShape& shape, const PlanOptions& options,
                    const DeviceProfile& profile, int64_t budget_bytes) {
  const auto inputs = PlanInputs::Create(
      {shape, options, profile, budget_bytes}, {.device = 12'345});
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  return *inputs;
}

TEST(LargestContextTest, IsWhatTryingEveryContextFinds) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    ModelShape shape = RandomShape(random);
    PlanOptions options;
    options.n_slots = LogUniform(random, 64);
    options.n_ubatch = LogUniform(random, 1'024);
    const DeviceProfile profile =
        ProfileWith(static_cast<AllocationRule>(random() % 3));
    const int64_t cap = LogUniform(random, 20'000);
    const ContextGrid grid(cap, ContextStep::kPage);
    std::vector<int64_t> bytes;
    for (int64_t index = 0; index < grid.size(); ++index) {
      bytes.push_back(
          *TotalBytes(InputsOf(shape, options, profile, 0), grid.At(index)));
    }
    for (int k = 0; k < 20; ++k) {
      // At and around what some context takes.
      const int64_t budget = bytes[random() % bytes.size()] - 1 +
                             static_cast<int64_t>(random() % 3);
      int64_t expected = 0;
      for (size_t index = 0; index < bytes.size(); ++index) {
        if (bytes[index] > budget) break;
        expected = grid.At(static_cast<int64_t>(index));
      }
      ASSERT_EQ(LargestContext(InputsOf(shape, options, profile, budget), cap),
                expected)
          << i << " cap " << cap << " budget " << budget;
    }
  }
}

TEST(LargestContextTest, ContextsThatOverflowDoNotFit) {
  ModelShape shape = Smollm2();
  shape.n_ctx_train = kMax;
  PlanOptions options;
  options.n_slots = LoadOptions::kMaxSlots;
  const DeviceProfile profile = ProfileWith(AllocationRule::kExact);
  const int64_t budget = int64_t{1} << 62;
  const PlanInputs inputs = InputsOf(shape, options, profile, budget);
  ASSERT_EQ(TotalBytes(inputs, kMax), std::nullopt);
  const int64_t n_ctx = LargestContext(inputs, kMax);
  EXPECT_LE(*TotalBytes(inputs, n_ctx), budget);
  EXPECT_GT(
      *TotalBytes(inputs, ContextGrid(kMax, ContextStep::kPage).Next(n_ctx)),
      budget);
}

TEST(LargestContextTest, TypesThatDoNotSuitTheModelAreAnError) {
  const ModelShape shape = Smollm2();  // heads of 64 elements
  PlanOptions options;
  options.k_type = DType::kQ6_K;  // blocks of 256
  EXPECT_EQ(PlanInputs::Create({shape, options, CommittedCpuProfile(), 0}, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::planner
