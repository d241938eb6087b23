// What binds a plan, what more would cost, and advice that holds.
#include "planner/layout/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "planner/model/weight_type.h"
#include "tests/planner/known_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

MemoryPlan PlanOn(const DeviceProfile& profile, const ModelShape& shape,
                  const PlanOptions& options, int64_t budget) {
  auto plan = Layout(shape, options, profile, budget);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : MemoryPlan{};
}

MemoryPlan PlanOf(const ModelShape& shape, const PlanOptions& options,
                  int64_t budget) {
  return PlanOn(CommittedCpuProfile(), shape, options, budget);
}

DeviceProfile Gpu() {
  DeviceProfile profile = CommittedCpuProfile();
  profile.id = "gpu";
  profile.kind = "cuda";
  return profile;
}

// A model with experts and per-layer embeddings.
ModelShape Sparse() {
  HeaderNumbers numbers("gemma4");
  numbers.Int("context_length", 65'536)
      .Int("embedding_length", 512)
      .Int("block_count", 4)
      .Int("feed_forward_length", 1'024)
      .Int("attention.head_count", 4)
      .Int("attention.key_length", 128)
      .Int("attention.value_length", 128)
      .Int("attention.sliding_window_pattern", 2)
      .Int("embedding_length_per_layer_input", 64)
      .Int("expert_count", 16)
      .Int("expert_used_count", 2)
      .Int("vocab_size", 10'000);
  return ShapeWith(numbers, DType::kF16, DType::kF16, true);
}

TEST(BindingTermTest, IsTheCacheWhereMemoryBoundsTheContext) {
  EXPECT_EQ(PlanOf(Gemma4(), {}, 9 * kGiB).binding_term,
            "kv_full: keys and values of 8 full layers");
  PlanOptions wide;
  wide.n_idle_sessions = 200;
  EXPECT_EQ(PlanOf(Gemma4(), wide, 71 * kGiB).binding_term,
            "kv_window: keys and values of 40 window layers");
}

TEST(BindingTermTest, IsTheLargestRegionWhereThePlanDoesNotFit) {
  EXPECT_EQ(PlanOf(Gemma4(), {}, kGiB).binding_term, "weights");
}

TEST(BindingTermTest, IsNothingWhereMemoryDoesNotBind) {
  EXPECT_EQ(PlanOf(Smollm2(), {}, 8 * kGiB).binding_term, "");
}

// What a plan takes of the device before the allocator rounds.
int64_t ExactBytes(const MemoryPlan& plan) {
  return plan.total_bytes - plan.FindRegion("margin")->bytes;
}

TEST(MarginalBytesTest, AreWhatAPlanWithMoreTakes) {
  PlanOptions options;
  options.n_ctx = 4'096;
  options.n_slots = 3;
  const MemoryPlan plan = PlanOf(Gemma270m(), options, 8 * kGiB);
  PlanOptions more = options;
  more.n_ctx = 4'096 + 64;
  const auto growth = [&] {
    return ExactBytes(PlanOf(Gemma270m(), more, 8 * kGiB)) - ExactBytes(plan);
  };
  EXPECT_EQ(plan.bytes_per_token, growth() / 64);
  more = options;
  more.n_slots = 4;
  EXPECT_EQ(plan.bytes_per_slot, growth());
  options.n_slots = LoadOptions::kMaxSlots;
  EXPECT_EQ(PlanOf(Smollm2(), options, kGiB).bytes_per_slot, 0);
}

TEST(MarginalBytesTest, OfReserveFirstPoliciesCountTokens) {
  PlanOptions options;
  options.engine.policy = ReservePolicy::kDense;
  options.n_ctx = 100;
  const MemoryPlan plan = PlanOf(Qwen3(), options, 80 * kGiB);
  EXPECT_EQ(plan.bytes_per_token, plan.kv.bytes_per_token);
  EXPECT_EQ(plan.bytes_per_slot, 100 * plan.kv.bytes_per_token);
}

// Every suggestion, applied, does what it says.
void CheckLonger(const ModelShape& shape, const PlanOptions& options,
                 int64_t budget, const DeviceProfile& profile) {
  const MemoryPlan plan = PlanOn(profile, shape, options, budget);
  ASSERT_EQ(plan.context_limit, ContextLimit::kMemory);
  ASSERT_FALSE(plan.suggestions.empty());
  for (const Suggestion& suggestion : plan.suggestions) {
    const PlanOptions changed = Changed(options, suggestion.change);
    EXPECT_EQ(PlanOn(profile, shape, changed, budget).n_ctx, suggestion.n_ctx);
    EXPECT_GT(suggestion.n_ctx, plan.n_ctx);
    EXPECT_GE(suggestion.saves_bytes, 0);
  }
}

TEST(SuggestionsTest, OfALongerContextHold) {
  PlanOptions options;
  options.k_type = options.v_type = DType::kF32;
  options.n_slots = 2;
  CheckLonger(Smollm2(), options, 600 * kMiB, CommittedCpuProfile());
  CheckLonger(Gemma4(), options, 12 * kGiB, Gpu());
  PlanOptions short_context;
  short_context.n_ctx = 2'048;
  const int64_t budget =
      PlanOn(Gpu(), Sparse(), short_context, kGiB).total_bytes;
  CheckLonger(Sparse(), {}, budget, Gpu());
}

// The suggestion of another file and of nothing else, if there is one.
std::optional<Suggestion> WeightsAdvice(const MemoryPlan& plan) {
  for (const Suggestion& suggestion : plan.suggestions) {
    const Change only_file = {.weight_type = suggestion.change.weight_type};
    if (only_file.weight_type && suggestion.change == only_file) {
      return suggestion;
    }
  }
  return std::nullopt;
}

TEST(SuggestionsTest, NameTheBestFileThatFits) {
  PlanOptions options;
  options.n_ctx = 1'024;
  const ModelShape wide = *WithWeightType(Gemma4(), DType::kF16);
  const auto bytes_as = [&](DType type) {
    PlanOptions changed = options;
    changed.engine.weight_type = type;
    return PlanOf(wide, changed, 80 * kGiB).total_bytes;
  };
  const int64_t needed = PlanOf(wide, options, 80 * kGiB).total_bytes;
  struct Case {
    int64_t budget;
    DType type;
  };
  for (const Case& c : {Case{needed - 1, DType::kQ8_0},
                        Case{bytes_as(DType::kQ8_0) - 1, DType::kQ6_K},
                        Case{bytes_as(DType::kQ4_K), DType::kQ4_K},
                        Case{bytes_as(DType::kQ2_K), DType::kQ2_K}}) {
    const auto advice = WeightsAdvice(PlanOf(wide, options, c.budget));
    ASSERT_TRUE(advice);
    EXPECT_EQ(advice->change, Change{.weight_type = c.type});
    EXPECT_EQ(advice->n_ctx, 1'024);
    EXPECT_EQ(needed - advice->saves_bytes, bytes_as(c.type));
  }
  // No worker of this build runs a smaller one.
  EXPECT_FALSE(
      WeightsAdvice(PlanOf(wide, options, bytes_as(DType::kQ2_K) - 1)));
}

TEST(SuggestionsTest, NameNoFileOfTheTypeThatIsThere) {
  PlanOptions options;
  options.n_ctx = 1'024;
  const ModelShape shape = *WithWeightType(Gemma4(), DType::kQ2_K);
  const int64_t needed = PlanOf(shape, options, 80 * kGiB).total_bytes;
  EXPECT_FALSE(WeightsAdvice(PlanOf(shape, options, needed - 1)));
  // Bytes that are given do not follow a type.
  options.engine.weight_bytes = 30 * kGiB;
  EXPECT_FALSE(WeightsAdvice(PlanOf(Gemma4(), options, 20 * kGiB)));
}

TEST(SuggestionsTest, NameAFileBesideOtherChangesWhereNoneIsEnough) {
  PlanOptions options;
  options.n_ctx = 64;
  options.n_slots = 8;
  const ModelShape wide = *WithWeightType(Gemma4(), DType::kF16);
  PlanOptions smallest = options;
  smallest.n_slots = 1;
  smallest.n_ubatch = 16;
  smallest.k_type = smallest.v_type = DType::kQ4_0;
  smallest.engine.weight_type = DType::kQ2_K;
  const int64_t budget = PlanOf(wide, smallest, kGiB).total_bytes;
  const MemoryPlan plan = PlanOf(wide, options, budget);
  ASSERT_EQ(plan.suggestions.size(), 1u);
  EXPECT_EQ(plan.suggestions[0].change, (Change{.n_ubatch = 16,
                                                .kv_type = DType::kQ4_0,
                                                .n_slots = 1,
                                                .weight_type = DType::kQ2_K}));
  EXPECT_EQ(plan.suggestions[0].n_ctx, 64);
}

TEST(SuggestionsTest, NameWeightsThatTheHostCouldKeep) {
  PlanOptions options;
  options.n_ctx = 1'024;
  const int64_t needed = PlanOn(Gpu(), Sparse(), options, kGiB).total_bytes;
  const MemoryPlan plan = PlanOn(Gpu(), Sparse(), options, needed - 16 * kMiB);
  EXPECT_FALSE(plan.fits);
  const auto suggests = [&](const Change& change) {
    return std::any_of(plan.suggestions.begin(), plan.suggestions.end(),
                       [&](const Suggestion& s) {
                         return s.change == change &&
                                s.saves_bytes >= 16 * kMiB;
                       });
  };
  EXPECT_TRUE(suggests({.n_cpu_experts = 1}) || suggests({.n_cpu_experts = 2}));
  for (const Suggestion& suggestion :
       PlanOf(Sparse(), options, needed - 16 * kMiB).suggestions) {
    EXPECT_EQ(suggestion.change.host_weights, HostWeights());
  }
}

TEST(HostWeightsTest, LieOnTheHostAndNotInTheTotal) {
  PlanOptions options;
  options.n_ctx = 1'024;
  const MemoryPlan all = PlanOn(Gpu(), Sparse(), options, kGiB);
  options.engine.host_weights = {.experts = true, .per_layer_embeddings = true};
  const MemoryPlan some = PlanOn(Gpu(), Sparse(), options, kGiB);
  const Region* host = some.FindRegion("weights_host");
  ASSERT_NE(host, nullptr);
  EXPECT_TRUE(host->on_host);
  EXPECT_EQ(some.host_bytes - all.host_bytes, host->bytes);
  EXPECT_GE(all.arena_bytes - some.arena_bytes, host->bytes);
  EXPECT_NE(std::find_if(some.weights.begin(), some.weights.end(),
                         [](const auto& w) { return w.offset == -1; }),
            some.weights.end());
  options.host_budget_bytes = some.host_bytes;
  EXPECT_TRUE(PlanOn(Gpu(), Sparse(), options, kGiB).fits);
  options.host_budget_bytes = some.host_bytes - 1;
  const MemoryPlan tight = PlanOn(Gpu(), Sparse(), options, kGiB);
  EXPECT_FALSE(tight.fits);
  EXPECT_EQ(tight.missing_bytes, 1);
  // Where the device is the host nothing is apart.
  EXPECT_EQ(PlanOf(Sparse(), options, kGiB).host_bytes, 0);
  options.engine.policy = ReservePolicy::kDense;
  EXPECT_NE(PlanOn(Gpu(), Sparse(), options, kGiB).FindRegion("weights_host"),
            nullptr);
}

PlanOptions WithTablesOnHost() {
  PlanOptions options;
  options.n_ctx = 1'024;
  options.host_tables = true;
  return options;
}

int64_t TableBytes(const ModelShape& shape) {
  int64_t bytes = 0;
  for (const WeightTensor& tensor : shape.weights) {
    if (IsTable(shape, tensor)) bytes += tensor.file_bytes;
  }
  return bytes;
}

TEST(HostTablesTest, LeaveTheArenaAndNothingElseChanges) {
  PlanOptions options;
  options.n_ctx = 1'024;
  const ModelShape shape = Sparse();
  for (const DeviceProfile& profile : {CommittedCpuProfile(), Gpu()}) {
    const MemoryPlan all = PlanOn(profile, shape, options, kGiB);
    const MemoryPlan some = PlanOn(profile, shape, WithTablesOnHost(), kGiB);
    const int64_t bytes = TableBytes(shape);
    EXPECT_EQ(bytes, 10'000 * 4 * 64 * 2);
    EXPECT_EQ(some.mapped_bytes, bytes);
    EXPECT_EQ(all.arena_bytes - some.arena_bytes, bytes);
    EXPECT_EQ(some.host_bytes, all.host_bytes);
    EXPECT_TRUE(some.not_runnable.empty());
    const Region* const mapped = some.FindRegion("weights_mmap");
    ASSERT_NE(mapped, nullptr);
    EXPECT_TRUE(mapped->is_mapped);
    EXPECT_EQ(mapped->on_host, profile.kind != "cpu");
  }
}

TEST(HostTablesTest, AreNotTheTableThatMakesLogits) {
  const ModelShape tied = Sparse();
  EXPECT_TRUE(tied.tied_output);
  ModelShape first = tied;
  first.has_last_layer = false;
  ModelShape untied = tied;
  untied.tied_output = false;
  for (const ModelShape& shape : {tied, first, untied}) {
    const bool is_output = shape.tied_output && shape.has_last_layer;
    const MemoryPlan plan = PlanOf(shape, WithTablesOnHost(), kGiB);
    int n_tables = 0;
    for (size_t i = 0; i < shape.weights.size(); ++i) {
      const std::string& name = shape.weights[i].name;
      const bool is_table = name == "per_layer_token_embd.weight" ||
                            (name == "token_embd.weight" && !is_output);
      EXPECT_EQ(plan.weights[i].offset < 0, is_table) << name;
      n_tables += is_table ? 1 : 0;
    }
    EXPECT_EQ(n_tables, is_output ? 1 : 2);
  }
}

TEST(HostTablesTest, TakeNoneOfADevicesBudget) {
  PlanOptions options = WithTablesOnHost();
  const int64_t budget = PlanOn(Gpu(), Sparse(), options, kGiB).total_bytes;
  options.n_ctx = std::nullopt;
  EXPECT_GE(PlanOn(Gpu(), Sparse(), options, budget).n_ctx, 1'024);
  // They take some of the host's.
  const MemoryPlan solved = PlanOf(Sparse(), options, budget);
  EXPECT_LE(solved.total_bytes + solved.mapped_bytes, budget);
}

PlanOptions Mapped() {
  PlanOptions options;
  options.mmap_weights = true;
  return options;
}

TEST(MappedWeightsTest, AreOutsideTheArenaAsInTheFile) {
  PlanOptions options = Mapped();
  options.n_ctx = 1'024;
  const ModelShape shape = Gemma4();
  const MemoryPlan plan = PlanOf(shape, options, 80 * kGiB);
  int64_t vector_bytes = 0;
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    EXPECT_EQ(plan.weights[i].offset >= 0, shape.weights[i].is_vector);
    if (shape.weights[i].is_vector) vector_bytes += shape.weights[i].file_bytes;
  }
  const Region* const mapped = plan.FindRegion("weights_mmap");
  EXPECT_EQ(mapped->bytes + vector_bytes, 6'960'054'464);
  EXPECT_EQ(mapped->offset, -1);
  EXPECT_TRUE(mapped->is_mapped);
  EXPECT_GE(plan.FindRegion("weights")->bytes, vector_bytes);
}

TEST(MappedWeightsTest, AreInNoOtherSum) {
  PlanOptions options = Mapped();
  options.n_ctx = 512;
  const MemoryPlan plan = PlanOf(Gemma4(), options, 80 * kGiB);
  int64_t sum = 0;
  for (const Region& region : plan.regions) sum += region.bytes;
  EXPECT_EQ(sum, plan.total_bytes + plan.mapped_bytes);
  EXPECT_GT(plan.mapped_bytes, 0);
  // A context that was asked for needs no room for them.
  EXPECT_TRUE(PlanOf(Gemma4(), options, plan.total_bytes).fits);
  EXPECT_FALSE(PlanOf(Gemma4(), options, plan.total_bytes - 1).fits);
}

TEST(MappedWeightsTest, ASolvedContextLeavesRoomForThem) {
  PlanOptions options = Mapped();
  options.n_ctx = 512;
  const MemoryPlan asked = PlanOf(Gemma4(), options, 80 * kGiB);
  const int64_t budget = asked.total_bytes + asked.mapped_bytes;
  const MemoryPlan solved = PlanOf(Gemma4(), Mapped(), budget);
  // The allocator's rounding may have room for a few more pages.
  EXPECT_GE(solved.n_ctx, 512);
  EXPECT_EQ(solved.context_limit, ContextLimit::kMemory);
  EXPECT_LE(solved.total_bytes + solved.mapped_bytes, budget);
  const MemoryPlan none = PlanOf(Gemma4(), Mapped(), asked.mapped_bytes);
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(none.n_ctx, 0);
  EXPECT_EQ(none.missing_bytes, none.total_bytes);
}

TEST(MappedWeightsTest, OnlyACpuReadsThem) {
  PlanOptions options = Mapped();
  options.n_ctx = 512;
  EXPECT_TRUE(PlanOf(Smollm2(), options, 8 * kGiB).not_runnable.empty());
  EXPECT_THAT(PlanOn(Gpu(), Smollm2(), options, 8 * kGiB).not_runnable,
              Contains(HasSubstr("cannot read weights in a mapped file")));
}

TEST(AllocationChoiceTest, TakesThePlaceOfTheDevicesRule) {
  PlanOptions options;
  options.n_ctx = 512;
  options.engine.allocation = AllocationChoice{AllocationRule::kPow2};
  const MemoryPlan plan = PlanOf(Smollm2(), options, 8 * kGiB);
  int64_t outside = 0;
  for (const char* name : {"tables", "candidates", "vocab", "runtime"}) {
    outside += plan.FindRegion(name)->bytes;
  }
  EXPECT_EQ(plan.total_bytes - outside, 128 * kMiB);
  options.engine.allocation = AllocationChoice{AllocationRule::kGranularity, 0};
  EXPECT_THAT(std::string(Layout(Smollm2(), options, CommittedCpuProfile(), 0)
                              .status()
                              .message()),
              HasSubstr("granularity_bytes"));
}

TEST(LoadOptionsTest, TypesThatAreNoneOfKeysOrValuesAreNamed) {
  PlanOptions options;
  options.v_type = DType::kQ4_K;
  EXPECT_THAT(std::string(Layout(Smollm2(), options, CommittedCpuProfile(), 0)
                              .status()
                              .message()),
              HasSubstr("v_type is q4_K, not one of f32, f16"));
}

TEST(ExplainTest, NoAdviceNamesATypeThatHeadsDoNotFill) {
  ModelShape shape = Smollm2();
  PlanOptions options;
  options.n_ctx = 8'192;
  const auto advises_q8 = [&] {
    const int64_t needed = PlanOf(shape, options, kGiB).total_bytes;
    const MemoryPlan plan = PlanOf(shape, options, needed - 1);
    EXPECT_FALSE(plan.fits);
    return std::any_of(plan.suggestions.begin(), plan.suggestions.end(),
                       [](const Suggestion& suggestion) {
                         return suggestion.change.kv_type == DType::kQ8_0;
                       });
  };
  EXPECT_TRUE(advises_q8());
  for (LayerShape& layer : shape.layers) layer.head_dim = 48;
  EXPECT_FALSE(advises_q8());
}

}  // namespace
}  // namespace plimsoll::planner
