// Layers that keep a state: which ones they are, their tensors, the bytes of
// their states and of a step, and numbers that make no sense.
#include "planner/model/recurrent_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/workspace_layout.h"
#include "tests/planner/known_models.h"
#include "tests/planner/model/small_models.h"
#include "tests/planner/recurrent_models.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelShape ShapeIn(const HeaderNumbers& numbers, bool tied_output) {
  return ShapeWith(numbers, DType::kQ8_0, DType::kQ8_0, tied_output);
}

// What is published of a model: its number of parameters, 0 if not without
// those of drafts, and what its layers imply. The numbers of layers and widths
// are those of each model's config.json.
struct Published {
  const char* name;
  HeaderNumbers numbers;
  bool tied_output;
  int64_t n_parameters;
  int64_t kv_bytes_per_token;  // in F16
  int64_t state_bytes;
};

std::vector<Published> PublishedModels() {
  return {
      {"LiquidAI/LFM2-1.2B", Lfm2Numbers(), true, 1'170'340'608, 12'288,
       10 * 2 * 2'048 * 4},
      {"Qwen/Qwen3-Next-80B-A3B", Qwen3NextNumbers(), false, 0, 24'576,
       36 * (3 * 8'192 + 32 * 128 * 128) * 4},
      {"ibm-granite/granite-4.0-h-micro", Granite4MicroNumbers(), true,
       3'191'396'096, 8'192, 36 * (3 * 4'352 + 64 * 64 * 128) * 4},
      {"ibm-granite/granite-4.0-h-tiny", Granite4TinyNumbers(), true,
       6'939'037'248, 8'192, 36 * (3 * 3'328 + 48 * 64 * 128) * 4},
      {"ibm-granite/granite-4.0-h-small", Granite4SmallNumbers(), true,
       32'207'337'984, 16'384, 36 * (3 * 8'448 + 128 * 64 * 128) * 4},
      {"nvidia/Nemotron-H-8B-Base-8K", NemotronH8bNumbers(), false,
       8'100'852'736, 16'384, 24 * (3 * 10'240 + 128 * 64 * 128) * 4},
      {"nvidia/NVIDIA-Nemotron-Nano-9B-v2", NemotronNano9bNumbers(), false,
       8'888'227'328, 16'384, 27 * (3 * 12'288 + 128 * 80 * 128) * 4},
      {"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", Nemotron3NanoNumbers(), false,
       31'577'940'288, 6'144, 23 * (3 * 6'144 + 64 * 64 * 128) * 4},
  };
}

TEST(RecurrentShapeTest, ParametersAreThePublishedNumber) {
  for (const Published& model : PublishedModels()) {
    SCOPED_TRACE(model.name);
    if (model.n_parameters == 0) continue;
    int64_t n = 0;
    for (const WeightTensor& tensor :
         ShapeIn(model.numbers, model.tied_output).weights) {
      n += tensor.cols * tensor.rows * tensor.n_matrices;
    }
    EXPECT_EQ(n, model.n_parameters);
  }
}

TEST(RecurrentShapeTest, StatesDoNotGrowWithTheContext) {
  for (const Published& model : PublishedModels()) {
    SCOPED_TRACE(model.name);
    const ModelShape shape = ShapeIn(model.numbers, model.tied_output);
    for (const int64_t n_ctx : {64, 4'096, 131'072}) {
      const auto kv =
          KvCacheBytes(shape, {.n_ctx = n_ctx, .n_slots = 3, .n_idle = 2});
      ASSERT_TRUE(kv.ok()) << kv.status();
      EXPECT_EQ(kv->bytes_per_token, model.kv_bytes_per_token);
      EXPECT_EQ(kv->full_bytes, 3 * n_ctx * model.kv_bytes_per_token);
      EXPECT_EQ(kv->state_bytes, model.state_bytes);
      EXPECT_EQ(kv->all_state_bytes, 5 * model.state_bytes);
      EXPECT_EQ(kv->SlotBytes(),
                n_ctx * model.kv_bytes_per_token + model.state_bytes);
    }
  }
}

TEST(RecurrentShapeTest, DraftsHaveStatesOfTheirOwn) {
  const ModelShape shape = ShapeIn(Lfm2Numbers(), true);
  const auto kv = KvCacheBytes(
      shape, {.n_ctx = 64, .n_slots = 3, .n_idle = 2, .rules = {.n_draft = 4}});
  ASSERT_TRUE(kv.ok());
  EXPECT_EQ(kv->n_states, 3 * 5 + 2);
  EXPECT_EQ(kv->all_state_bytes, 17 * kv->state_bytes);
}

TEST(RecurrentShapeTest, APlanHasARegionOfStates) {
  PlanOptions options;
  options.n_ctx = 8'192;
  options.n_slots = 2;
  options.n_draft = 3;
  options.n_idle_sessions = 1;
  const ModelShape shape = ShapeIn(Lfm2Numbers(), true);
  const auto plan = Layout(shape, options, CommittedCpuProfile(), 64 * kGiB);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->fits);
  const Region* const state = plan->FindRegion("state");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->bytes, 9 * 163'840);
  EXPECT_EQ(state->formula,
            "(2 slots x 4 + 1 idle) x 163840 bytes of 10 recurrent layers");
  EXPECT_THAT(plan->FindRegion("kv_full")->formula,
              HasSubstr("6 of 16 layers attend"));
  EXPECT_EQ(plan->FindRegion("kv_full")->bytes, 2 * 8'192 * 12'288);
  // A slot more has a state and one for each draft; a token more has none.
  EXPECT_EQ(plan->bytes_per_token / 2,
            12'288);  // and a part of a table's entry
  EXPECT_GT(plan->bytes_per_slot, 8'192 * 12'288 + 4 * 163'840);
  const auto without =
      Layout(ShapeWith(Qwen3Numbers(), DType::kQ8_0, DType::kQ8_0, false),
             options, CommittedCpuProfile(), 64 * kGiB);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->FindRegion("state"), nullptr);
}

TEST(RecurrentShapeTest, EnginesThatReserveByRulesHaveStatesToo) {
  PlanOptions options;
  options.n_ctx = 8'192;
  options.n_slots = 2;
  options.engine.policy = ReservePolicy::kDense;
  const auto plan = Layout(ShapeIn(Lfm2Numbers(), true), options,
                           CommittedCpuProfile(), 64 * kGiB);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Region* const state = plan->FindRegion("state");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->bytes, 2 * 163'840);
}

TEST(RecurrentShapeTest, OnlyLayersThatAttendBindAContext) {
  const auto plan = Layout(ShapeIn(Lfm2Numbers(), true), PlanOptions(),
                           CommittedCpuProfile(), 2 * kGiB);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->binding_term, "kv_full: keys and values of 6 full layers");
}

TEST(RecurrentShapeTest, AFormulaNamesACacheWithoutFlashAttention) {
  PlanOptions options;
  options.n_ctx = 8'192;
  options.engine.flash_attention = false;
  const auto plan = Layout(ShapeIn(Lfm2Numbers(), true), options,
                           CommittedCpuProfile(), 64 * kGiB);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->FindRegion("kv_full")->formula,
              HasSubstr(", no flash attention"));
}

TEST(RecurrentShapeTest, StatesThatDoNotFitAreNamed) {
  PlanOptions options;
  options.n_ctx = 64;
  options.n_slots = 4'096;
  ModelShape shape = ShapeIn(Granite4TinyNumbers(), true);
  const auto plan = Layout(shape, options, CommittedCpuProfile(), 8 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->fits);
  EXPECT_EQ(plan->binding_term, "state");
}

TEST(RecurrentShapeTest, PartsOfAModelHaveTheStatesOfTheirLayers) {
  const ModelShape shape = ShapeIn(Lfm2Numbers(), true);
  int64_t sum = 0;
  for (const auto& [first, n] : {std::pair{0, 2}, {2, 1}, {3, 13}}) {
    const auto slice = SliceLayers(shape, first, n);
    ASSERT_TRUE(slice.ok());
    const auto kv = KvCacheBytes(*slice, {.n_ctx = 64, .n_slots = 1});
    ASSERT_TRUE(kv.ok());
    // The first two layers do not attend, and the third one keeps no state.
    EXPECT_EQ(kv->full_bytes == 0, first == 0);
    EXPECT_EQ(kv->state_bytes == 0, first == 2);
    sum += kv->state_bytes;
  }
  EXPECT_EQ(sum, 163'840);
}

std::vector<MixerKind> Mixers(const HeaderNumbers& numbers) {
  const auto shape = ShapeOf(numbers);
  EXPECT_TRUE(shape.ok()) << shape.status();
  std::vector<MixerKind> mixers;
  for (const LayerShape& layer : shape->layers) mixers.push_back(layer.mixer);
  return mixers;
}

TEST(RecurrentShapeTest, FilesSayWhichLayersKeepAState) {
  using enum MixerKind;
  EXPECT_THAT(Mixers(Small("lfm2")),
              ElementsAre(kShortConv, kShortConv, kAttention, kShortConv,
                          kShortConv, kAttention));
  EXPECT_THAT(Mixers(Small("qwen35")),
              ElementsAre(kDeltaNet, kDeltaNet, kAttention, kDeltaNet,
                          kDeltaNet, kAttention));
  HeaderNumbers by_interval = Small("qwen3next");
  by_interval.header().metadata.erase("qwen3next.attention.recurrent_layers");
  EXPECT_THAT(Mixers(by_interval),
              ElementsAre(kDeltaNet, kDeltaNet, kDeltaNet, kAttention,
                          kDeltaNet, kDeltaNet));
  EXPECT_THAT(Mixers(by_interval.Int("full_attention_interval", 2)),
              ElementsAre(kDeltaNet, kAttention, kDeltaNet, kAttention,
                          kDeltaNet, kAttention));
  EXPECT_THAT(
      Mixers(Small("granitehybrid")),
      ElementsAre(kMamba2, kMamba2, kAttention, kMamba2, kMamba2, kAttention));
  EXPECT_THAT(
      Mixers(Small("nemotron_h")),
      ElementsAre(kMamba2, kNone, kAttention, kMamba2, kNone, kAttention));
}

TEST(RecurrentShapeTest, ALayerOfNemotronHIsAMixerOrAnFfn) {
  const auto shape = ShapeOf(Small("nemotron_h"));
  ASSERT_TRUE(shape.ok()) << shape.status();
  for (const LayerShape& layer : shape->layers) {
    EXPECT_EQ(layer.ffn == FfnKind::kNone, layer.mixer != MixerKind::kNone);
  }
  EXPECT_TRUE(HasTensor(*shape, "blk.0.ssm_in.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.0.ffn_up.weight"));
  EXPECT_TRUE(HasTensor(*shape, "blk.1.ffn_up.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.1.ffn_gate.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.1.ffn_norm.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.1.attn_output.weight"));
}

std::map<std::string, WeightTensor> TensorsOf(const HeaderNumbers& numbers) {
  const auto shape = ShapeOf(numbers);
  EXPECT_TRUE(shape.ok()) << shape.status();
  std::map<std::string, WeightTensor> tensors;
  for (const WeightTensor& tensor : shape->weights) {
    tensors[tensor.name] = tensor;
  }
  return tensors;
}

TEST(RecurrentShapeTest, ATensorHasTheNameThatReadersKnow) {
  auto tensors = TensorsOf(Small("lfm2"));
  EXPECT_TRUE(tensors.contains("output_norm.weight"));
  EXPECT_FALSE(tensors.contains("token_embd_norm.weight"));
}

TEST(RecurrentShapeTest, AConvolutionsWeightsAreOneVector) {
  auto tensors = TensorsOf(Small("qwen35"));
  const WeightTensor& conv = tensors["blk.0.ssm_conv1d.weight"];
  EXPECT_TRUE(conv.is_vector);
  EXPECT_EQ(conv.cols, 4 * (64 + 2 * 2 * 16));
  EXPECT_EQ(conv.n_matrices, 1);
}

TEST(RecurrentShapeTest, QueriesHaveGatesBesideThem) {
  auto tensors = TensorsOf(Small("qwen35"));
  EXPECT_EQ(tensors["blk.2.attn_q.weight"].rows, 2 * 4 * 32);
  EXPECT_EQ(tensors["blk.2.attn_output.weight"].cols, 4 * 32);
  EXPECT_FALSE(tensors.contains("blk.0.attn_q.weight"));
  EXPECT_FALSE(tensors.contains("blk.2.attn_qkv.weight"));
}

TEST(RecurrentShapeTest, AStepHasRoomForTheMixersProducts) {
  const ModelShape shape = ShapeIn(Qwen3NextNumbers(), false);
  const auto widths = WidthsOf(shape, DType::kF16, DType::kF16);
  ASSERT_TRUE(widths.ok());
  const auto plan = WorkspaceLayout(
      shape, *widths, {.n_rows = 64, .n_sampled = 16, .has_rings = false},
      CommittedCpuProfile());
  ASSERT_TRUE(plan.ok());
  const auto floats = [&](StepBuffer b) { return (*plan)[b].bytes / 64 / 4; };
  EXPECT_EQ(floats(StepBuffer::kQuery), 8'192 + 4'096 + 2 * 32);
  EXPECT_EQ(floats(StepBuffer::kPrefixQuery), 16 * 256);
  EXPECT_EQ(floats(StepBuffer::kHeads), 8'192);  // as wide as queries and gates
  EXPECT_EQ(floats(StepBuffer::kAttention), 4'096);
  EXPECT_EQ(floats(StepBuffer::kKey), 2 * 256);
}

TEST(RecurrentShapeTest, WidthsUpToTheirLimitsAndNotPastThem) {
  for (const auto& [key, value] :
       {std::pair<const char*, uint64_t>{"ssm.conv_kernel", 8},
        {"ssm.conv_kernel", 2},
        {"ssm.state_size", 256},
        {"ssm.state_size", 1},
        {"ssm.inner_size", 4 * 256},
        {"ssm.group_count", 4}}) {
    SCOPED_TRACE(key);
    const auto shape = ShapeOf(Small("granitehybrid").Int(key, value));
    EXPECT_TRUE(shape.ok()) << shape.status();
  }
  for (const auto& [key, value] :
       {std::pair<const char*, uint64_t>{"ssm.conv_kernel", 9},
        {"ssm.conv_kernel", 1},
        {"ssm.state_size", 257},
        {"ssm.state_size", 0},
        {"ssm.inner_size", 4 * 257},
        {"ssm.inner_size", 65},
        {"ssm.inner_size", 2},
        {"ssm.group_count", 5},
        {"ssm.group_count", 3},
        {"ssm.group_count", 0},
        {"ssm.time_step_rank", 0}}) {
    ExpectInvalid(Small("granitehybrid").Int(key, value), key);
  }
  EXPECT_TRUE(ShapeOf(Small("lfm2").Int("shortconv.l_cache", 8)).ok());
  ExpectInvalid(Small("lfm2").Int("shortconv.l_cache", 9), "l_cache");
  ExpectInvalid(Small("lfm2").Int("shortconv.l_cache", 1), "l_cache");
  // 255 * 4,096 values, 16 * 128 queries and as many keys are 2^20 channels.
  const HeaderNumbers wide = Small("granitehybrid")
                                 .Int("ssm.time_step_rank", 4'096)
                                 .Int("ssm.inner_size", 255 * 4'096)
                                 .Int("ssm.group_count", 16);
  EXPECT_TRUE(ShapeOf(HeaderNumbers(wide).Int("ssm.state_size", 128)).ok());
  ExpectInvalid(HeaderNumbers(wide).Int("ssm.state_size", 129),
                "small enough for 1048576 channels");
  // A delta net's queries are as wide as its values.
  ExpectInvalid(Small("qwen35").Int("ssm.inner_size", 128), "ssm.inner_size");
}

TEST(RecurrentShapeTest, LayersThatContradictTheirNumbersAreNamed) {
  ExpectInvalid(Small("qwen35").List("attention.head_count_kv", GgufType::kI32,
                                     {0, 0, 2, 0, 0, 0}),
                "at least 1 in layer 5");
  ExpectInvalid(
      Small("nemotron_h")
          .List("feed_forward_length", GgufType::kI32, {0, 96, 96, 0, 96, 0}),
      "0 in layer 2");
  ExpectInvalid(Small("qwen35").List("attention.recurrent_layers",
                                     GgufType::kBool, {1, 1}),
                "attention.recurrent_layers");
  ExpectInvalid(Small("qwen35").List("attention.recurrent_layers",
                                     GgufType::kI32, {1, 1, 0, 1, 1, 0}),
                "attention.recurrent_layers");
  // Only architectures with states may have layers without KV heads.
  ExpectInvalid(Small("qwen3").List("attention.head_count_kv", GgufType::kI32,
                                    {2, 2, 0, 2, 2, 2}),
                "attention.head_count_kv");
}

}  // namespace
}  // namespace plimsoll::planner
