// How many layers' experts lie in host memory: what fits, as few as needed, in
// the stated order, and why. Random models, devices and hosts have no
// exception.
#include "planner/layout/cpu_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "planner/layout/auto_context.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/weight_layout.h"
#include "tests/planner/shapes.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kAmpleBytes = int64_t{1} << 50;
constexpr int64_t kEveryLayer = LoadOptions::kMaxCpuExperts;

DeviceProfile BareGpu() {
  DeviceProfile profile = CommittedGpuProfile();
  profile.runtime_bytes = 0;
  return profile;
}

// Adds experts to layers from `first` on, every `step`th.
ModelShape WithExperts(ModelShape shape, size_t first, size_t step) {
  shape.n_experts = 8;
  shape.n_experts_used = 2;
  for (size_t il = first; il < shape.layers.size(); il += step) {
    LayerShape& layer = shape.layers[il];
    layer.expert_ffn_dim = layer.ffn_dim;
    layer.ffn = FfnKind::kExperts;
    const int64_t bytes =
        *RowBytes(DType::kQ8_0, shape.model_dim) * layer.ffn_dim * 8;
    for (const char* name : {"ffn_up_exps.weight", "ffn_down_exps.weight"}) {
      shape.weights.push_back({.name = absl::StrCat("blk.", il, ".", name),
                               .dtype = DType::kQ8_0,
                               .cols = shape.model_dim,
                               .rows = layer.ffn_dim,
                               .is_vector = false,
                               .file_offset = 0,
                               .file_bytes = bytes,
                               .n_matrices = 8,
                               .file_stride = bytes / 8,
                               .kind = WeightKind::kExpert});
    }
  }
  return shape;
}

// Eight layers, of which the second and all later ones have experts, of more
// bytes than an allocation is rounded up by.
ModelShape MoeShape() {
  return WithExperts(MakeShape({8, 512, 8, 2, 64, 1'024, 1'000, 8'192, 0,
                                DType::kF16, DType::kF16}),
                     1, 1);
}

MemoryPlan ExpertPlanOf(const ModelShape& shape, const PlanOptions& options,
                        int64_t budget) {
  const auto plan = Layout(shape, options, BareGpu(), budget);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(MemoryPlan{});
}

PlanOptions WithExpertsAndContext(std::optional<int64_t> n_layers,
                                  std::optional<int64_t> n_ctx) {
  PlanOptions options;
  options.n_ctx = n_ctx;
  options.n_cpu_experts = n_layers;
  return options;
}

PlanOptions WithCpuExperts(std::optional<int64_t> n_layers) {
  return WithExpertsAndContext(n_layers, 1'024);
}

int64_t NumDecided(const MemoryPlan& plan) {
  return plan.options.n_cpu_experts.value_or(-1);
}

// The message of the refusal.
std::string RefusalOn(const DeviceProfile& profile, const ModelShape& shape,
                      const PlanOptions& options) {
  const absl::Status status =
      Layout(shape, options, profile, kAmpleBytes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string ExpertRefusal(const ModelShape& shape, const PlanOptions& options) {
  return RefusalOn(BareGpu(), shape, options);
}

TEST(CpuExpertsPlanTest, TheFirstLayersWithExpertsGoToTheHost) {
  const ModelShape shape = WithExperts(DeepShape(8), 2, 3);  // 2 and 5
  EXPECT_EQ(NumExpertLayers(shape), 2);
  EXPECT_EQ(CpuExpertsEnd(shape, 0), 0);
  EXPECT_EQ(CpuExpertsEnd(shape, 1), 3);
  EXPECT_EQ(CpuExpertsEnd(shape, 2), 6);
  EXPECT_EQ(CpuExpertsEnd(shape, kEveryLayer), 6);
  EXPECT_EQ(CpuExpertsEnd(DeepShape(8), 1), 0);
  const MemoryPlan plan = ExpertPlanOf(shape, WithCpuExperts(1), kAmpleBytes);
  ASSERT_EQ(plan.cpu_weights.size(), shape.weights.size());
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    const bool is_for_cpu = LayerOf(shape.weights[i].name) == 2;
    EXPECT_EQ(plan.cpu_weights[i].offset >= 0, is_for_cpu) << i;
    EXPECT_EQ(plan.weights[i].offset >= 0, !is_for_cpu) << i;
  }
}

TEST(CpuExpertsPlanTest, ThePlanHasTheBytesOfBoth) {
  const ModelShape shape = MoeShape();
  const MemoryPlan none = ExpertPlanOf(shape, WithCpuExperts(0), kAmpleBytes);
  EXPECT_FALSE(none.HasCpuExperts());
  EXPECT_EQ(none.FindRegion("experts_host"), nullptr);
  EXPECT_EQ(none.cpu_experts_reason, "");
  const MemoryPlan some = ExpertPlanOf(shape, WithCpuExperts(3), kAmpleBytes);
  const Region* weights = some.FindRegion("experts_host");
  const Region* workspace = some.FindRegion("experts_workspace");
  ASSERT_NE(weights, nullptr);
  ASSERT_NE(workspace, nullptr);
  EXPECT_TRUE(weights->on_host);
  EXPECT_TRUE(workspace->on_host);
  EXPECT_EQ(some.host_bytes - none.host_bytes,
            weights->bytes + workspace->bytes);
  EXPECT_EQ(none.arena_bytes - some.arena_bytes, weights->bytes);
  EXPECT_THAT(weights->formula, HasSubstr("3 of 7 layers"));
  EXPECT_EQ(some.FindRegion("weights")->formula,
            "all but the experts of 3 layers, as stored on the device");
  EXPECT_EQ(some.cpu_experts_reason,
            "the experts of 3 of 7 layers were asked to be in host memory");
  const MemoryPlan host = HostPlanOf(some);
  EXPECT_EQ(AllocatedBytes(HostProfile(), host.arena_bytes).value_or(0),
            weights->bytes + workspace->bytes);
  EXPECT_EQ(host.FindRegion("weights")->bytes, weights->bytes);
  EXPECT_EQ(host.FindRegion("workspace")->bytes, host.workspace.bytes);
  for (const WeightPlacement& place : host.weights) {
    if (place.offset < 0) continue;
    EXPECT_LE(place.offset + place.bytes, weights->bytes);
  }
}

TEST(CpuExpertsPlanTest, TheNumbersAloneAreThoseOfThePlan) {
  const ModelShape shape = MoeShape();
  const int64_t budget =
      ExpertPlanOf(shape, WithCpuExperts(3), kAmpleBytes).total_bytes;
  for (const std::optional<int64_t> n :
       {std::optional<int64_t>(2), std::optional<int64_t>()}) {
    const MemoryPlan plan = ExpertPlanOf(shape, WithCpuExperts(n), budget);
    const auto numbers =
        LayoutNumbers(shape, WithCpuExperts(n), BareGpu(), budget);
    ASSERT_TRUE(numbers.ok()) << numbers.status();
    EXPECT_EQ(plan.fits, !n.has_value());
    EXPECT_EQ(numbers->fits, plan.fits);
    EXPECT_EQ(numbers->total_bytes, plan.total_bytes);
    EXPECT_EQ(numbers->missing_bytes, plan.missing_bytes);
  }
}

TEST(CpuExpertsPlanTest, MoreThanThereAreAreAll) {
  EXPECT_EQ(
      NumDecided(ExpertPlanOf(MoeShape(), WithCpuExperts(7), kAmpleBytes)), 7);
  EXPECT_EQ(
      NumDecided(ExpertPlanOf(MoeShape(), WithCpuExperts(8), kAmpleBytes)), 7);
  EXPECT_EQ(NumDecided(ExpertPlanOf(MoeShape(), WithCpuExperts(kEveryLayer),
                                    kAmpleBytes)),
            7);
  EXPECT_THAT(ExpertRefusal(MoeShape(), WithCpuExperts(kEveryLayer + 1)),
              HasSubstr("n_cpu_experts is 513, not 0 to 512"));
  EXPECT_THAT(ExpertRefusal(MoeShape(), WithCpuExperts(-1)),
              HasSubstr("n_cpu_experts is -1, not 0 to 512"));
}

TEST(CpuExpertsPlanTest, AModelWithoutExpertsHasNoneToMove) {
  for (const std::optional<int64_t> n :
       {std::optional<int64_t>(), {kEveryLayer}}) {
    const MemoryPlan plan =
        ExpertPlanOf(DeepShape(8), WithCpuExperts(n), kAmpleBytes);
    EXPECT_EQ(NumDecided(plan), 0);
    EXPECT_FALSE(plan.HasCpuExperts());
    EXPECT_EQ(plan.cpu_experts_reason, "the model has no experts");
  }
}

TEST(CpuExpertsPlanTest, AreRefusedWhereTheyHaveNoMeaning) {
  for (const std::optional<int64_t> n : {std::optional<int64_t>(), {1}}) {
    PlanOptions options = WithCpuExperts(n);
    EXPECT_THAT(RefusalOn(CommittedCpuProfile(), MoeShape(), options),
                HasSubstr("the device is the CPU"));
    const auto part = SliceLayers(MoeShape(), 0, 4);
    ASSERT_TRUE(part.ok());
    EXPECT_THAT(ExpertRefusal(*part, options), HasSubstr("several devices"));
    const auto split =
        SplitLayers(MoeShape(), options, {{BareGpu(), kAmpleBytes}});
    EXPECT_TRUE(absl::IsInvalidArgument(split.status()));
    PlanOptions other = options;
    other.engine.policy = ReservePolicy::kDense;
    EXPECT_THAT(ExpertRefusal(MoeShape(), other), HasSubstr("another engine"));
    other = options;
    other.engine.weight_bytes = 1 << 20;
    EXPECT_THAT(ExpertRefusal(MoeShape(), other), HasSubstr("another engine"));
    other = options;
    other.engine.host_weights.experts = true;
    EXPECT_THAT(ExpertRefusal(MoeShape(), other), HasSubstr("host_weights"));
  }
}

TEST(CpuExpertsPlanTest, AsFewAsLeaveRoomForTheContextAskedFor) {
  const ModelShape shape = MoeShape();
  const auto bytes = [&](int64_t n) {
    return ExpertPlanOf(shape, WithCpuExperts(n), kAmpleBytes).total_bytes;
  };
  const PlanOptions options = WithCpuExperts(std::nullopt);
  const MemoryPlan whole = ExpertPlanOf(shape, options, bytes(0));
  EXPECT_EQ(NumDecided(whole), 0);
  EXPECT_EQ(whole.cpu_experts_reason, "the device has room for all experts");
  for (int64_t n = 1; n <= 7; ++n) {
    ASSERT_LT(bytes(n), bytes(n - 1));
    const MemoryPlan plan = ExpertPlanOf(shape, options, bytes(n));
    EXPECT_TRUE(plan.fits);
    EXPECT_EQ(NumDecided(plan), n);
    EXPECT_THAT(plan.cpu_experts_reason,
                HasSubstr(absl::StrCat("the experts of ", n,
                                       " of 7 layers are in host memory: with "
                                       "those of ",
                                       n - 1, ", 1,024 tokens")));
  }
  const MemoryPlan none = ExpertPlanOf(shape, options, bytes(7) - 1);
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(NumDecided(none), 7);
  EXPECT_EQ(none.cpu_experts_reason,
            "all experts are in host memory, and the plan does not fit");
}

TEST(CpuExpertsPlanTest, HostMemoryBoundsThemToo) {
  const ModelShape shape = MoeShape();
  PlanOptions options = WithCpuExperts(2);
  const MemoryPlan two = ExpertPlanOf(shape, options, kAmpleBytes);
  options.host_budget_bytes = two.host_bytes;
  options.n_cpu_experts.reset();
  EXPECT_EQ(NumDecided(ExpertPlanOf(shape, options, two.total_bytes)), 2);
  options.host_budget_bytes = two.host_bytes - (int64_t{2} << 20);
  const MemoryPlan fewer = ExpertPlanOf(shape, options, two.total_bytes);
  EXPECT_FALSE(fewer.fits);
  EXPECT_EQ(fewer.cpu_experts_reason,
            "host memory has no room for more than the experts of 1 of 7 "
            "layers");
}

// With no context asked for, experts move for 4,096 tokens and not for more.
TEST(CpuExpertsPlanTest, ExpertsMoveForContextUpToAPointThenItTakesWhatIsLeft) {
  const ModelShape shape = MoeShape();
  const auto bytes = [&](int64_t n, int64_t n_ctx) {
    return ExpertPlanOf(shape, WithExpertsAndContext(n, n_ctx), kAmpleBytes)
        .total_bytes;
  };
  const PlanOptions solved = WithExpertsAndContext(std::nullopt, std::nullopt);
  const int64_t floor = kContextBeforeExperts;
  const MemoryPlan exact = ExpertPlanOf(shape, solved, bytes(3, floor));
  EXPECT_EQ(NumDecided(exact), 3);
  EXPECT_GE(exact.n_ctx, floor);
  EXPECT_THAT(exact.cpu_experts_reason, HasSubstr("4,096 tokens of context"));
  // All of the longest context would fit with more experts on the host.
  const MemoryPlan more =
      ExpertPlanOf(shape, solved, bytes(2, floor) - (int64_t{2} << 20));
  EXPECT_EQ(NumDecided(more), 3);
  EXPECT_GT(more.n_ctx, floor);
  const MemoryPlan less = ExpertPlanOf(shape, solved, bytes(7, 1'024));
  EXPECT_EQ(NumDecided(less), 7);
  EXPECT_GE(less.n_ctx, 1'024);
  EXPECT_LT(less.n_ctx, floor);
}

// What a user gets, the most wanted first.
std::tuple<int64_t, int64_t, int64_t> WorthOf(const MemoryPlan& plan,
                                              int64_t cap) {
  return {std::min({plan.n_ctx, kContextBeforeExperts, cap}), -NumDecided(plan),
          plan.n_ctx};
}

struct ExpertCase {
  ModelShape shape;
  PlanOptions options;
  int64_t cap;
  int64_t budget;
};

int64_t BytesWithExperts(const ExpertCase& c, int64_t n, int64_t n_ctx) {
  PlanOptions options = c.options;
  options.n_cpu_experts = n;
  options.n_ctx = n_ctx;
  return ExpertPlanOf(c.shape, options, kAmpleBytes).total_bytes;
}

ExpertCase MakeExpertCase(std::mt19937_64& random) {
  ExpertCase c = {};
  do {
    c.shape = RandomShape(random);
  } while (c.shape.n_layers > 24);
  c.shape = WithExperts(c.shape, random() % 3, 1 + random() % 2);
  c.options.n_ubatch = LogUniform(random, 256);
  c.options.n_slots = LogUniform(random, 8);
  c.options.n_cpu_experts.reset();
  c.cap = c.shape.n_ctx_train;
  if (random() % 2 == 0) c.options.n_ctx = LogUniform(random, c.cap);
  const int64_t least = BytesWithExperts(c, kEveryLayer, 16);
  const int64_t most = BytesWithExperts(c, 0, c.cap);
  c.budget =
      least - 2 +
      static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 5));
  if (random() % 2 == 0) {
    PlanOptions all = c.options;
    all.n_cpu_experts = kEveryLayer;
    all.n_ctx = c.options.n_ctx.value_or(16);
    const MemoryPlan plan = ExpertPlanOf(c.shape, all, kAmpleBytes);
    c.options.host_budget_bytes = static_cast<int64_t>(
        random() % static_cast<uint64_t>(2 * plan.host_bytes));
  }
  return c;
}

bool FitsWithExperts(const ExpertCase& c, int64_t n, int64_t n_ctx) {
  PlanOptions options = c.options;
  options.n_cpu_experts = n;
  options.n_ctx = n_ctx;
  return ExpertPlanOf(c.shape, options, c.budget).fits;
}

TEST(CpuExpertsPropertyTest, FewestLayersThenTheLongestContextThatFit) {
  std::mt19937_64 random(1);
  int n_chosen = 0;
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    const ExpertCase c = MakeExpertCase(random);
    const int64_t n_layers = NumExpertLayers(c.shape);
    const int64_t wanted =
        std::min(c.options.n_ctx.value_or(kContextBeforeExperts), c.cap);
    const MemoryPlan plan = ExpertPlanOf(c.shape, c.options, c.budget);
    const int64_t n = NumDecided(plan);
    ASSERT_GE(n, 0);
    ASSERT_LE(n, n_layers);
    if (!plan.fits) {
      // No number of layers helps, be it with the shortest context.
      for (int64_t other = 0; other <= n_layers; ++other) {
        ASSERT_FALSE(FitsWithExperts(
            c, other, c.options.n_ctx ? wanted : std::min<int64_t>(16, c.cap)));
      }
      continue;
    }
    ASSERT_LE(plan.total_bytes, c.budget);
    ASSERT_LE(plan.host_bytes,
              c.options.host_budget_bytes.value_or(kAmpleBytes));
    for (int64_t fewer = 0; fewer < n; ++fewer) {
      ASSERT_FALSE(FitsWithExperts(c, fewer, plan.n_ctx)) << fewer;
    }
    // A shorter context than wanted is there only if no number gives that.
    if (plan.n_ctx < wanted) {
      for (int64_t other = 0; other <= n_layers; ++other) {
        ASSERT_FALSE(FitsWithExperts(c, other, wanted)) << other;
      }
    }
    if (!c.options.n_ctx && plan.n_ctx < c.cap) {
      const ContextGrid grid(c.cap, ContextStep::kPage);
      ASSERT_FALSE(FitsWithExperts(c, n, grid.Next(plan.n_ctx)));
    }
    n_chosen += n > 0 ? 1 : 0;
  }
  EXPECT_GT(n_chosen, 50);
}

TEST(CpuExpertsPropertyTest, ALargerBudgetIsNeverWorse) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    ExpertCase c = MakeExpertCase(random);
    const MemoryPlan before = ExpertPlanOf(c.shape, c.options, c.budget);
    const MemoryPlan after = ExpertPlanOf(
        c.shape, c.options, c.budget + LogUniform(random, int64_t{1} << 32));
    ASSERT_GE(after.fits, before.fits);
    if (!before.fits) continue;
    ASSERT_GE(WorthOf(after, c.cap), WorthOf(before, c.cap));
  }
}

TEST(CpuExpertsPropertyTest, EachLayerMovesBytesFromTheDeviceToTheHost) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    ExpertCase c = MakeExpertCase(random);
    c.options.n_ctx = 64;
    c.options.host_budget_bytes.reset();
    MemoryPlan last = {};
    for (int64_t n = 0; n <= NumExpertLayers(c.shape); ++n) {
      c.options.n_cpu_experts = n;
      MemoryPlan plan = ExpertPlanOf(c.shape, c.options, kAmpleBytes);
      if (n > 0) {
        ASSERT_LT(plan.arena_bytes, last.arena_bytes);
        ASSERT_GE(plan.host_bytes, last.host_bytes);
      }
      last = std::move(plan);
    }
  }
}

// One type runs on the CPU and not on the device, and another the other way
// round.
TEST(CpuExpertsPlanTest, TheCpusTypesCountForItsExperts) {
  DeviceProfile profile = BareGpu();
  std::erase_if(profile.storage, [](const StorageRule& rule) {
    return rule.dtype == DType::kQ8_0;
  });
  const auto reasons = [&](int64_t n) {
    const auto plan =
        Layout(MoeShape(), WithCpuExperts(n), profile, kAmpleBytes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->not_runnable : std::vector<std::string>();
  };
  EXPECT_EQ(reasons(0).size(), 1u);
  EXPECT_EQ(reasons(6).size(), 1u);
  EXPECT_EQ(reasons(7).size(), 0u);
}

TEST(CpuExpertsPlanTest, ASuggestionMovesAsFewAsAreEnough) {
  const ModelShape shape = MoeShape();
  const PlanOptions plain = WithCpuExperts(0);
  const int64_t budget =
      ExpertPlanOf(shape, WithCpuExperts(4), kAmpleBytes).total_bytes;
  const MemoryPlan plan = ExpertPlanOf(shape, plain, budget);
  ASSERT_FALSE(plan.fits);
  int64_t suggested = 0;
  for (const Suggestion& suggestion : plan.suggestions) {
    if (suggestion.change ==
        Change{.n_cpu_experts = suggestion.change.n_cpu_experts}) {
      suggested = suggestion.change.n_cpu_experts.value_or(0);
    }
  }
  EXPECT_GT(suggested, 0);
  EXPECT_LE(suggested, 4);
  EXPECT_TRUE(ExpertPlanOf(shape, WithCpuExperts(suggested), budget).fits);
  EXPECT_FALSE(ExpertPlanOf(shape, WithCpuExperts(suggested - 1), budget).fits);
}

}  // namespace
}  // namespace plimsoll::planner
