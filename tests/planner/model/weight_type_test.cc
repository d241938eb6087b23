// Weights in another element type than in the file.
#include "planner/model/weight_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/fleet/bounds.h"
#include "planner/layout/memory_plan.h"
#include "tests/planner/known_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

TEST(WithWeightTypeTest, ChangesMatricesAndLeavesVectors) {
  const ModelShape shape = Smollm2();
  const auto changed = WithWeightType(shape, DType::kF16);
  ASSERT_TRUE(changed.ok());
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    const WeightTensor& tensor = changed->weights[i];
    EXPECT_EQ(tensor.name, shape.weights[i].name);
    EXPECT_EQ(tensor.dtype, tensor.is_vector ? DType::kF32 : DType::kF16);
    if (tensor.is_vector) continue;
    EXPECT_EQ(tensor.file_bytes, 2 * tensor.rows * tensor.cols);
  }
}

TEST(WithWeightTypeTest, RowsThatAreNoWholeBlocksFallBack) {
  ModelShape shape = Smollm2();
  const auto add = [&](int64_t cols) {
    shape.weights.push_back({"w", DType::kF32, cols, 4, false, 0, 0});
  };
  shape.weights.clear();
  for (int64_t cols : {512, 96, 30}) add(cols);
  const auto changed = WithWeightType(shape, DType::kQ4_K);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->weights[0].dtype, DType::kQ4_K);
  EXPECT_EQ(changed->weights[1].dtype, DType::kQ8_0);
  EXPECT_EQ(changed->weights[2].dtype, DType::kF16);
}

TEST(WithWeightTypeTest, RefusesTypesThatWeightsAreNotStoredIn) {
  for (DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                      DType::kF64, DType::kQ8_1, DType::kQ8_K}) {
    EXPECT_EQ(WithWeightType(Smollm2(), dtype).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(WithWeightTypeTest, RefusesBytesThatOverflow) {
  ModelShape shape = Smollm2();
  shape.weights[0].rows = kMax / 2;
  EXPECT_EQ(WithWeightType(shape, DType::kF32).status().code(),
            absl::StatusCode::kOutOfRange);
  shape.weights[0].rows = 1;
  shape.weights[0].cols = kMax;
  EXPECT_EQ(WithWeightType(shape, DType::kF32).status().code(),
            absl::StatusCode::kOutOfRange);
}

// A plan with weight_type is the plan of a file in that type.
TEST(WeightTypeTest, PlansTheFileInThatType) {
  const ModelShape shape = Gemma4();
  const ModelShape changed = *WithWeightType(shape, DType::kQ8_0);
  for (const ReservePolicy policy :
       {ReservePolicy::kExact, ReservePolicy::kDense}) {
    for (const bool is_mapped : {false, true}) {
      PlanOptions of_changed;
      of_changed.engine.policy = policy;
      of_changed.mmap_weights = is_mapped;
      PlanOptions as_changed = of_changed;
      as_changed.engine.weight_type = DType::kQ8_0;
      const auto wanted =
          Layout(changed, of_changed, CommittedCpuProfile(), 20 * kGiB);
      const auto plan =
          Layout(shape, as_changed, CommittedCpuProfile(), 20 * kGiB);
      ASSERT_TRUE(wanted.ok() && plan.ok()) << plan.status();
      EXPECT_EQ(plan->total_bytes, wanted->total_bytes);
      EXPECT_EQ(plan->n_ctx, wanted->n_ctx);
      EXPECT_EQ(plan->options.engine.weight_type, DType::kQ8_0);
      const auto numbers =
          LayoutNumbers(shape, as_changed, CommittedCpuProfile(), 20 * kGiB);
      ASSERT_TRUE(numbers.ok()) << numbers.status();
      EXPECT_EQ(numbers->total_bytes, wanted->total_bytes);
    }
  }
}

TEST(WeightTypeTest, BoundsReadTheBytesOfThatType) {
  PlanOptions options;
  options.n_ctx = 1'024;
  options.engine.weight_type = DType::kF16;
  const auto bounds = BoundsOn(Smollm2(), options,
                               {CommittedCpuProfile(), 8 * kGiB, 1'000'000});
  ASSERT_TRUE(bounds.ok() && bounds->has_value()) << bounds.status();
  EXPECT_EQ((*bounds)->decode->weight_bytes,
            *WeightBytesPerStep(*WithWeightType(Smollm2(), DType::kF16)));
}

TEST(WeightTypeTest, APlanRefusesATypeThatWeightsAreNotStoredIn) {
  PlanOptions options;
  options.engine.weight_type = DType::kI8;
  EXPECT_EQ(Layout(Smollm2(), options, CommittedCpuProfile(), kGiB)
                .status()
                .message(),
            "weights are not stored in i8");
  EXPECT_FALSE(
      LayoutNumbers(Smollm2(), options, CommittedCpuProfile(), kGiB).ok());
  EXPECT_FALSE(
      BoundsOn(Smollm2(), options, {CommittedCpuProfile(), kGiB, 1}).ok());
}

}  // namespace
}  // namespace plimsoll::planner
