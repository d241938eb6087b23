// What an MTP head is in a model's shape and in its plan.
#include "planner/layout/mtp_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "tests/planner/model/small_models.h"
#include "tests/planner/mtp_head.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kAmpleBytes = int64_t{1} << 40;

// The third layer of a small Qwen 3.5 and all layers of the others attend.
HeaderNumbers SmallWithHead(const std::string& architecture) {
  HeaderNumbers numbers = Small(architecture);
  EXPECT_TRUE(AddTensors(numbers.header(),
                         {DType::kF16, DType::kF16, DType::kF16}, false)
                  .ok());
  AddMtpHead(/*n_layers=*/6, /*like=*/2, numbers);
  return numbers;
}

ModelShape ShapeWithHead(const std::string& architecture) {
  const auto shape = ShapeFromGguf(SmallWithHead(architecture).header());
  EXPECT_TRUE(shape.ok()) << shape.status();
  return *shape;
}

PlanOptions WithMtp() {
  PlanOptions options;
  options.n_ctx = 256;
  options.n_slots = 3;
  options.n_ubatch = 64;
  options.n_draft = 2;
  options.draft_source = DraftSource::kMtp;
  return options;
}

absl::StatusOr<MemoryPlan> PlanFor(const ModelShape& shape,
                                   const PlanOptions& options) {
  return Layout(shape, options, CommittedCpuProfile(), kAmpleBytes);
}

std::string ErrorOf(const ModelShape& shape, const PlanOptions& options) {
  const auto plan = PlanFor(shape, options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(MtpShapeTest, TheBlockAfterTheLayersIsTheHead) {
  for (const char* architecture : {"qwen35", "glm4moe", "deepseek2"}) {
    SCOPED_TRACE(architecture);
    const ModelShape shape = ShapeWithHead(architecture);
    EXPECT_EQ(shape.n_layers, 6);
    ASSERT_TRUE(shape.mtp);
    EXPECT_EQ(shape.mtp->block, 6);
    EXPECT_TRUE(shape.mtp->layer.Attends());
    for (const WeightTensor& weight : shape.weights) {
      EXPECT_FALSE(absl::StartsWith(weight.name, "blk.6.")) << weight.name;
    }
    for (const WeightTensor& weight : shape.mtp->weights) {
      EXPECT_TRUE(absl::StartsWith(weight.name, "blk.6.")) << weight.name;
    }
    const ModelShape head = MtpShapeOf(shape);
    EXPECT_EQ(head.n_layers, 1);
    EXPECT_EQ(head.weights.size(), shape.mtp->weights.size());
    EXPECT_FALSE(head.mtp);
  }
}

TEST(MtpShapeTest, WithoutItsProductABlockIsIgnored) {
  HeaderNumbers numbers = SmallWithHead("qwen35");
  std::erase_if(numbers.header().tensors, [](const GgufTensor& tensor) {
    return absl::StrContains(tensor.name, "eh_proj");
  });
  const auto shape = ShapeFromGguf(numbers.header());
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->n_layers, 6);
  EXPECT_FALSE(shape->mtp);
}

TEST(MtpShapeTest, AHeadIsWholeOrAnError) {
  HeaderNumbers numbers = SmallWithHead("qwen35");
  std::erase_if(numbers.header().tensors, [](const GgufTensor& tensor) {
    return tensor.name == "blk.6.attn_k.weight";
  });
  EXPECT_THAT(std::string(ShapeFromGguf(numbers.header()).status().message()),
              HasSubstr("\"blk.6.attn_k.weight\" is missing"));
  numbers = SmallWithHead("qwen35");
  for (GgufTensor& tensor : numbers.header().tensors) {
    if (absl::StrContains(tensor.name, "eh_proj")) tensor.ne[0] /= 2;
  }
  EXPECT_THAT(std::string(ShapeFromGguf(numbers.header()).status().message()),
              HasSubstr("\"blk.6.nextn.eh_proj.weight\" has the shape"));
}

TEST(MtpLayoutTest, IsInThePlanOnlyIfItIsAskedFor) {
  const ModelShape shape = ShapeWithHead("qwen35");
  PlanOptions options = WithMtp();
  options.draft_source = DraftSource::kLookup;
  const auto without = PlanFor(shape, options);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->FindRegion("mtp"), nullptr);
  EXPECT_TRUE(without->mtp_weights.empty());
  const auto with = PlanFor(shape, WithMtp());
  ASSERT_TRUE(with.ok()) << with.status();

  // 4 pages of 64 tokens in each of 3 slots: 2 heads of 32 keys and values.
  const int64_t kv = 3 * 4 * 64 * 2 * 2 * 32 * 2;
  EXPECT_EQ(with->FindRegion("kv_mtp")->bytes, kv);
  EXPECT_EQ(with->kv.full_bytes, without->kv.full_bytes);
  int64_t end = 0;
  for (const WeightPlacement& weight : with->mtp_weights) {
    end = std::max(end, weight.offset + weight.bytes);
  }
  const int64_t rows = 64 * 64 * 4;
  const int64_t mtp = with->FindRegion("mtp")->bytes;
  EXPECT_GE(mtp, end + rows);
  EXPECT_LT(mtp, end + rows + 2 * CommittedCpuProfile().alignment);
  EXPECT_EQ(with->arena_bytes - without->arena_bytes,
            kv + mtp + with->workspace.bytes - without->workspace.bytes);
  EXPECT_EQ(with->bytes_per_token - without->bytes_per_token,
            3 * 2 * 2 * 32 * 2);
  EXPECT_GE(with->workspace[StepBuffer::kGate].bytes, 64 * 2 * 64 * 4)
      << "room for a row and an embedding side by side";
}

TEST(MtpLayoutTest, TakesTheTypeThatThePlanAsksFor) {
  const ModelShape shape = ShapeWithHead("qwen35");
  const auto stored = PlanFor(shape, WithMtp());
  ASSERT_TRUE(stored.ok()) << stored.status();
  PlanOptions options = WithMtp();
  options.engine.weight_type = DType::kQ8_0;
  const auto asked = PlanFor(shape, options);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->mtp_weights.empty()) << "no file has these weights";
  const int64_t rows = 64 * 64 * 4;
  const int64_t stored_weights = stored->FindRegion("mtp")->bytes - rows;
  const int64_t asked_weights = asked->FindRegion("mtp")->bytes - rows;
  // Matrices take 34 bytes instead of 64; norms keep their type.
  EXPECT_GT(asked_weights * 64, stored_weights * 34);
  EXPECT_LT(asked_weights * 64, stored_weights * 38);
  EXPECT_EQ(asked->FindRegion("kv_mtp")->bytes,
            stored->FindRegion("kv_mtp")->bytes);
}

TEST(MtpLayoutTest, ItsOwnPlanIsAPartOfTheWhole) {
  const ModelShape shape = ShapeWithHead("qwen35");
  const auto plan = PlanFor(shape, WithMtp());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const MemoryPlan head = MtpPlanOf(*plan);
  const Region& mtp = *plan->FindRegion("mtp");
  const Region& weights = *head.FindRegion("weights");
  EXPECT_EQ(weights.offset, mtp.offset);
  EXPECT_GE(mtp.bytes - weights.bytes, plan->n_rows * shape.model_dim * 4)
      << "room for rows behind them";
  EXPECT_EQ(head.weights.size(), shape.mtp->weights.size());
  EXPECT_EQ(head.FindRegion("kv_full")->offset,
            plan->FindRegion("kv_mtp")->offset);
  EXPECT_EQ(head.kv.n_pages, plan->kv.n_pages);
  for (const char* shared : {"workspace", "logits"}) {
    EXPECT_EQ(head.FindRegion(shared)->offset,
              plan->FindRegion(shared)->offset);
  }
}

TEST(MtpLayoutTest, ParkedContextsKeepItsKeysToo) {
  const ModelShape shape = ShapeWithHead("glm4moe");
  PlanOptions options = WithMtp();
  options.n_parked = 2;
  const auto plan = PlanFor(shape, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->FindRegion("kv_parked")->bytes,
            2 * (plan->kv.SlotBytes() + plan->mtp_kv.SlotBytes()));
}

TEST(MtpLayoutTest, RefusesWhatHasNoPlace) {
  const ModelShape shape = ShapeWithHead("qwen35");
  PlanOptions options = WithMtp();
  options.n_draft = 0;
  EXPECT_THAT(ErrorOf(shape, options), HasSubstr("n_draft is 0"));
  options = WithMtp();
  options.engine.policy = ReservePolicy::kDense;
  EXPECT_THAT(ErrorOf(shape, options), HasSubstr("another engine"));
  ModelShape headless = shape;
  headless.mtp.reset();
  EXPECT_THAT(ErrorOf(headless, WithMtp()),
              HasSubstr("no tensor \"blk.6.nextn.eh_proj.weight\""));
  const auto split = SplitLayers(shape, WithMtp(),
                                 {{CommittedCpuProfile(), kAmpleBytes},
                                  {CommittedCpuProfile(), kAmpleBytes}});
  EXPECT_THAT(std::string(split.status().message()),
              HasSubstr("devices share the layers"));
  const auto slice = SliceLayers(shape, 0, 3);
  ASSERT_TRUE(slice.ok());
  EXPECT_FALSE(slice->mtp);
}

}  // namespace
}  // namespace plimsoll::planner
