// Plans: regions that sum exactly, the one chokepoint of n_ctx, and advice that
// holds.
#include "planner/layout/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/layout/explain.h"
#include "tests/planner/model/small_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MemoryPlan PlanWithin(int64_t budget, const ModelShape& shape,
                      const PlanOptions& options) {
  auto plan = Layout(shape, options, CommittedCpuProfile(), budget);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : MemoryPlan{};
}

// The plan where everything fits.
MemoryPlan PlanOf(const ModelShape& shape, const PlanOptions& options) {
  return PlanWithin(64 * kGiB, shape, options);
}

PlanOptions Context(int64_t n_ctx) {
  PlanOptions options;
  options.n_ctx = n_ctx;
  return options;
}

TEST(MemoryPlanTest, RegionsAreInOrderDisjointAndSumExactly) {
  PlanOptions options = Context(1'000);
  options.n_slots = 3;
  options.margin_bytes = 12'345;
  const MemoryPlan plan = PlanOf(Gemma270m(), options);
  std::vector<std::string> names;
  int64_t end = 0;
  int64_t sum = 0;
  for (const Region& region : plan.regions) {
    names.emplace_back(region.name);
    sum += region.bytes;
    EXPECT_GE(region.bytes, 0);
    EXPECT_FALSE(region.formula.empty());
    if (region.offset < 0) continue;
    EXPECT_EQ(region.offset, end);
    EXPECT_EQ(region.offset % region.alignment, 0);
    end = region.offset + region.bytes;
  }
  EXPECT_THAT(names, ElementsAre("weights", "kv_full", "kv_window", "kv_draft",
                                 "workspace", "logits", "tables", "candidates",
                                 "vocab", "runtime", "margin"));
  EXPECT_EQ(end, plan.arena_bytes);
  EXPECT_EQ(sum, plan.total_bytes);
  EXPECT_EQ(plan.total_bytes,
            *AllocatedBytes(CommittedCpuProfile(), plan.arena_bytes) +
                plan.FindRegion("tables")->bytes +
                plan.FindRegion("candidates")->bytes +
                plan.FindRegion("vocab")->bytes +
                plan.FindRegion("runtime")->bytes + 12'345);
  EXPECT_EQ(plan.FindRegion("weights")->basis, Basis::kDerived);
  EXPECT_EQ(plan.FindRegion("vocab")->basis, Basis::kEstimated);
  EXPECT_EQ(plan.FindRegion("nothing"), nullptr);
}

TEST(MemoryPlanTest, TablesAndCandidatesAreHostMemory) {
  PlanOptions options = Context(1'000);  // 16 pages of 64 tokens
  options.n_slots = 3;
  options.n_parked = 2;
  DeviceProfile profile = CommittedCpuProfile();
  for (const char* kind : {"cpu", "gpu"}) {
    profile.kind = kind;
    const auto plan = Layout(Gemma270m(), options, profile, 64 * kGiB);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Region& tables = *plan->FindRegion("tables");
    EXPECT_EQ(tables.bytes, (3 + 2) * 16 * 24 + 3 * 16 * 12);
    const Region& candidates = *plan->FindRegion("candidates");
    EXPECT_EQ(candidates.bytes, 16 * 64 * 8);
    for (const Region* region : {&tables, &candidates}) {
      EXPECT_EQ(region->offset, -1);
      EXPECT_EQ(region->on_host, profile.kind != "cpu");
    }
  }
}

TEST(MemoryPlanTest, MessagesAreHostMemoryOfTheirOwn) {
  PlanOptions options;
  options.n_ctx = 512;
  for (DeviceProfile profile : {CommittedCpuProfile(), CommittedGpuProfile()}) {
    const auto without = Layout(Gemma270m(), options, profile, kGiB);
    profile.message_bytes = 64 * kMiB;
    const auto with = Layout(Gemma270m(), options, profile, kGiB);
    ASSERT_TRUE(without.ok() && with.ok());
    EXPECT_EQ(without->FindRegion("messages"), nullptr);
    const Region* messages = with->FindRegion("messages");
    ASSERT_NE(messages, nullptr);
    EXPECT_EQ(messages->bytes, 64 * kMiB);
    EXPECT_EQ(messages->basis, Basis::kDerived);
    EXPECT_FALSE(messages->formula.empty());
    // They are in the device's memory only where the device is the host.
    const bool is_host = profile.kind == "cpu";
    EXPECT_EQ(messages->on_host, !is_host);
    EXPECT_EQ(with->total_bytes - without->total_bytes,
              is_host ? 64 * kMiB : 0);
    EXPECT_EQ(with->host_bytes - without->host_bytes, is_host ? 0 : 64 * kMiB);
  }
}

TEST(MemoryPlanTest, DraftsTakeARowOfLogitsAndOfRingsEach) {
  PlanOptions options = Context(4'096);
  options.n_slots = 3;
  const MemoryPlan without = PlanOf(Gemma270m(), options);
  options.n_draft = 7;
  const MemoryPlan with = PlanOf(Gemma270m(), options);
  EXPECT_EQ(without.FindRegion("kv_draft")->bytes, 0);
  EXPECT_EQ(without.n_sampled, 16) << "what the kernels take at least";
  EXPECT_EQ(with.n_sampled, 3 * 8);
  // 15 layers of windows, one KV head of 256 numbers, keys and values in f16.
  EXPECT_EQ(with.FindRegion("kv_draft")->bytes, 3 * 7 * 15 * 2 * 256 * 2);
  EXPECT_EQ(2 * with.FindRegion("logits")->bytes,
            3 * without.FindRegion("logits")->bytes);
  // Without rings nothing waits.
  EXPECT_EQ(PlanOf(Smollm2(), options).FindRegion("kv_draft")->bytes, 0);
}

TEST(MemoryPlanTest, RecurrentLayersKeepAStateForEveryGuessOfASlot) {
  HeaderNumbers numbers = Small("qwen35");
  ASSERT_TRUE(AddTensors(numbers.header(),
                         {DType::kF16, DType::kF16, DType::kF16}, false)
                  .ok());
  const auto shape = ShapeFromGguf(numbers.header());
  ASSERT_TRUE(shape.ok()) << shape.status();
  PlanOptions options = Context(256);
  options.n_slots = 3;
  options.n_draft = 2;
  options.n_idle_sessions = 5;
  const MemoryPlan plan = PlanOf(*shape, options);
  const Region& states = *plan.FindRegion("state");
  EXPECT_EQ(states.bytes, (3 * (1 + 2) + 5) * plan.kv.state_bytes);
  EXPECT_THAT(states.formula, HasSubstr("(3 slots x 3 + 5 idle) x "));
  EXPECT_THAT(states.formula, HasSubstr(" recurrent layers"));
}

TEST(MemoryPlanTest, ParkedContextsTakeTheBytesOfAWholeSlotOnTheHost) {
  for (const ModelShape& shape : {Gemma270m(), Smollm2()}) {
    for (const DeviceProfile& profile :
         {CommittedCpuProfile(), CommittedGpuProfile()}) {
      PlanOptions options = Context(4'000);
      options.n_slots = 3;
      const auto without = Layout(shape, options, profile, 64 * kGiB);
      options.n_parked = 2;
      const auto with = Layout(shape, options, profile, 64 * kGiB);
      ASSERT_TRUE(without.ok() && with.ok());
      EXPECT_EQ(without->FindRegion("kv_parked"), nullptr);
      const Region* parked = with->FindRegion("kv_parked");
      ASSERT_NE(parked, nullptr);
      const int64_t all = without->FindRegion("kv_full")->bytes +
                          without->FindRegion("kv_window")->bytes;
      EXPECT_EQ(parked->bytes, 2 * (all / 3));
      EXPECT_FALSE(parked->formula.empty());
      // The host's memory is the device's where the device is the host.
      const bool is_host = profile.kind == "cpu";
      EXPECT_EQ(parked->offset >= 0, is_host);
      EXPECT_EQ(parked->on_host, !is_host);
      EXPECT_EQ(with->arena_bytes - without->arena_bytes,
                is_host ? parked->bytes : 0);
      const int64_t tables = with->FindRegion("tables")->bytes -
                             without->FindRegion("tables")->bytes;
      EXPECT_EQ(with->host_bytes - without->host_bytes,
                is_host ? 0 : parked->bytes + tables);
      EXPECT_EQ(is_host, with->total_bytes > without->total_bytes);
    }
  }
}

TEST(MemoryPlanTest, ParkedContextsAreGivenUpFirst) {
  PlanOptions options = Context(4'000);
  const int64_t budget = PlanOf(Smollm2(), options).total_bytes;
  options.n_parked = 1;
  const MemoryPlan lacks = PlanWithin(budget, Smollm2(), options);
  EXPECT_FALSE(lacks.fits);
  ASSERT_FALSE(lacks.suggestions.empty());
  EXPECT_EQ(lacks.suggestions[0].change, Change{.n_parked = 0});
  EXPECT_EQ(lacks.suggestions[0].n_ctx, 4'000);
  // Together with the rest where nothing alone is enough.
  options.n_slots = 64;
  options.k_type = options.v_type = DType::kF32;
  PlanOptions least = Context(16);
  least.n_ubatch = 16;
  const MemoryPlan all =
      PlanWithin(PlanOf(Smollm2(), least).total_bytes, Smollm2(), options);
  ASSERT_FALSE(all.suggestions.empty());
  EXPECT_EQ(all.suggestions[0].change.n_parked, 0);
  // It is also suggested where it makes the context longer.
  options = {};
  options.n_parked = 1;
  const MemoryPlan solved = PlanWithin(budget, Smollm2(), options);
  ASSERT_FALSE(solved.suggestions.empty());
  EXPECT_EQ(solved.suggestions[0].change, Change{.n_parked = 0});
  EXPECT_GT(solved.suggestions[0].n_ctx, solved.n_ctx);
}

TEST(MemoryPlanTest, APoolIsSharedByAllSlots) {
  PlanOptions options = Context(1'000);  // 16 pages of 64 tokens
  options.n_slots = 8;
  const int64_t page = PlanOf(Gemma270m(), options).kv.page_bytes;
  const auto pages = [&](int64_t kv_tokens) {
    options.kv_tokens = kv_tokens;
    const MemoryPlan plan = PlanOf(Gemma270m(), options);
    EXPECT_EQ(plan.kv.pages_per_slot, 16);
    EXPECT_EQ(plan.FindRegion("kv_full")->bytes, plan.kv.n_pages * page);
    return plan.kv.n_pages;
  };
  EXPECT_EQ(pages(1), 16) << "a whole context always fits";
  EXPECT_EQ(pages(16 * 64), 16);
  EXPECT_EQ(pages(16 * 64 + 1), 17);
  EXPECT_EQ(pages(8 * 16 * 64), 8 * 16);
  EXPECT_EQ(pages(kMax), 8 * 16) << "nor more than all slots can use";
  options.n_ctx.reset();
  options.kv_tokens = 4'096;
  EXPECT_EQ(PlanOf(Gemma270m(), options).n_ctx, 32'768);
}

TEST(MemoryPlanTest, WeightsLieInTheirStorageRuleOneAfterAnother) {
  ModelShape shape = Smollm2();
  shape.weights = {{"a", DType::kQ8_0, 64, 17, false, 0, 0},
                   {"b", DType::kF16, 7, 1, true, 0, 0},
                   {"c", DType::kF32, 3, 16, false, 0, 0},
                   {"d", DType::kBF16, 5, 1, true, 0, 0, 3}};
  const MemoryPlan plan = PlanOf(shape, Context(64));
  ASSERT_EQ(plan.weights.size(), 4u);
  EXPECT_EQ(plan.weights[0].offset, 0);
  EXPECT_EQ(plan.weights[0].bytes, 32 * 68);  // 17 rows padded to 32
  EXPECT_EQ(plan.weights[1].offset, 32 * 68);
  EXPECT_EQ(plan.weights[1].bytes, 28);  // float32 whatever the file has
  EXPECT_EQ(plan.weights[2].offset, 32 * 68 + 64);
  EXPECT_EQ(plan.weights[2].bytes, 16 * 12);
  EXPECT_EQ(plan.weights[3].bytes, 3 * 20);  // three vectors side by side
}

TEST(MemoryPlanTest, AnElementTypeTheDeviceCannotRunIsNamed) {
  ModelShape shape = Smollm2();
  shape.weights[3].dtype = DType::kQ8_1;
  const MemoryPlan plan = PlanWithin(kGiB, shape, {});
  EXPECT_THAT(plan.not_runnable,
              ElementsAre(HasSubstr("tensor \"w3\" is of type q8_1")));
  PlanOptions options;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0,
                           DType::kQ5_1, DType::kQ4_0}) {
    options.k_type = options.v_type = type;
    EXPECT_THAT(PlanWithin(kGiB, Smollm2(), options).not_runnable, IsEmpty())
        << DTypeName(type);
  }
  options.k_type = DType::kQ5_0;
  options.v_type = DType::kQ4_1;
  EXPECT_THAT(PlanWithin(kGiB, Smollm2(), options).not_runnable,
              ElementsAre(HasSubstr("type q5_0"), HasSubstr("type q4_1")));
}

TEST(MemoryPlanTest, AnExplicitContextIsClampedToTheTrainedOneAndSaysSo) {
  const MemoryPlan plan = PlanOf(Gemma270m(), Context(999'999'999));
  EXPECT_EQ(plan.n_ctx, 32'768);
  EXPECT_EQ(plan.context_limit, ContextLimit::kTrainedContext);
  EXPECT_EQ(plan.n_ctx_reason,
            "the model was trained for 32,768 tokens; the requested "
            "999,999,999 was cut to it");
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(PlanOf(Gemma270m(), Context(kMax)).n_ctx, 32'768);
}

TEST(MemoryPlanTest, MaxInferenceLenCapsContextAndEverythingLengthDependent) {
  PlanOptions options;
  options.max_inference_len = 32;
  const MemoryPlan small = PlanOf(Smollm2(), options);
  EXPECT_EQ(small.n_ctx, 32);
  EXPECT_EQ(small.n_rows, 32);
  EXPECT_EQ(small.context_limit, ContextLimit::kMaxInferenceLen);
  EXPECT_THAT(small.n_ctx_reason, HasSubstr("max_inference_len is 32"));
  const MemoryPlan large = PlanOf(Smollm2(), Context(4'096));
  EXPECT_GE(large.FindRegion("kv_full")->bytes,
            100 * small.FindRegion("kv_full")->bytes);
  EXPECT_GE(large.workspace.bytes, 10 * small.workspace.bytes);
  options.n_ctx = 100;
  EXPECT_EQ(PlanOf(Smollm2(), options).n_ctx, 32);
  options.n_ctx = 20;
  EXPECT_EQ(PlanOf(Smollm2(), options).n_ctx, 20);
  EXPECT_EQ(PlanOf(Smollm2(), options).context_limit, ContextLimit::kRequested);
}

TEST(MemoryPlanTest, OmittedContextIsSolvedUpToTheTrainedOne) {
  const MemoryPlan plan = PlanOf(Smollm2(), {});
  EXPECT_EQ(plan.n_ctx, 8'192);
  EXPECT_EQ(plan.context_limit, ContextLimit::kTrainedContext);
}

TEST(MemoryPlanTest, TheSolvedContextIsTheLargestThatFits) {
  const MemoryPlan plan = PlanWithin(300 * kMiB, Smollm2(), {});
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.context_limit, ContextLimit::kMemory);
  EXPECT_EQ(plan.n_ctx % 64, 0);
  EXPECT_TRUE(PlanWithin(300 * kMiB, Smollm2(), Context(plan.n_ctx)).fits);
  const MemoryPlan next =
      PlanWithin(300 * kMiB, Smollm2(), Context(plan.n_ctx + 64));
  EXPECT_FALSE(next.fits);
  EXPECT_THAT(plan.n_ctx_reason, HasSubstr("one page more needs " +
                                           WithThousands(next.total_bytes)));
  EXPECT_THAT(plan.n_ctx_reason, HasSubstr("the budget is 314,572,800"));
}

TEST(MemoryPlanTest, WhereNotEvenTheSmallestContextFitsNCtxIsZero) {
  const MemoryPlan plan = PlanWithin(10 * kMiB, Smollm2(), {});
  EXPECT_EQ(plan.n_ctx, 0);
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.missing_bytes, plan.total_bytes - 10 * kMiB);
  EXPECT_THAT(plan.n_ctx_reason, HasSubstr("not even 16 tokens fit"));
  EXPECT_TRUE(plan.suggestions.empty());
}

TEST(MemoryPlanTest, EverySuggestionFits) {
  PlanOptions options = Context(8'192);
  options.n_slots = 4;
  options.k_type = options.v_type = DType::kF32;
  const int64_t budget = 500 * kMiB;
  const MemoryPlan plan = PlanWithin(budget, Smollm2(), options);
  ASSERT_FALSE(plan.fits);
  EXPECT_EQ(plan.missing_bytes, plan.total_bytes - budget);
  ASSERT_FALSE(plan.suggestions.empty());
  for (const Suggestion& suggestion : plan.suggestions) {
    EXPECT_GE(suggestion.saves_bytes, plan.missing_bytes);
    EXPECT_TRUE(
        PlanWithin(budget, Smollm2(), Changed(options, suggestion.change))
            .fits);
  }
  const Change last = plan.suggestions.back().change;
  ASSERT_TRUE(last.n_ctx);
  PlanOptions changed = options;
  changed.n_ctx = *last.n_ctx + 64;
  EXPECT_FALSE(PlanWithin(budget, Smollm2(), changed).fits);
}

TEST(MemoryPlanTest, SuggestionsComeCheapestFirst) {
  PlanOptions options = Context(4'096);
  options.n_slots = 2;
  options.k_type = options.v_type = DType::kF32;
  const int64_t need = PlanOf(Smollm2(), options).total_bytes;
  const MemoryPlan plan = PlanWithin(need - 1, Smollm2(), options);
  std::vector<Change> changes;
  for (const Suggestion& s : plan.suggestions) changes.push_back(s.change);
  EXPECT_THAT(
      changes,
      ElementsAre(Change{.n_ubatch = 256}, Change{.kv_type = DType::kF16},
                  Change{.kv_type = DType::kQ8_0},
                  Change{.kv_type = DType::kQ5_1},
                  Change{.kv_type = DType::kQ4_0}, Change{.n_slots = 1},
                  Change{.n_ctx = plan.suggestions.back().n_ctx}));
}

TEST(MemoryPlanTest, ReductionsAreCombinedWhereNoneIsEnough) {
  PlanOptions options = Context(4'096);
  options.n_slots = 64;
  options.k_type = options.v_type = DType::kF32;
  PlanOptions least = Context(16);
  least.n_ubatch = 16;
  const int64_t budget = PlanOf(Smollm2(), least).total_bytes;
  const MemoryPlan plan = PlanWithin(budget, Smollm2(), options);
  ASSERT_EQ(plan.suggestions.size(), 1u);
  EXPECT_EQ(plan.suggestions[0].change,
            (Change{.n_ubatch = 16,
                    .kv_type = DType::kQ4_0,
                    .n_slots = 1,
                    .n_ctx = plan.suggestions[0].n_ctx}));
}

TEST(MemoryPlanTest, OptionsUpToTheirLimitsAndNotPastThem) {
  const auto status = [](auto change) {
    PlanOptions options = Context(16);
    change(options);
    return Layout(Smollm2(), options, CommittedCpuProfile(), kMax).status();
  };
  using O = PlanOptions;
  EXPECT_TRUE(status([](O& o) { o.n_slots = O::kMaxSlots; }).ok());
  EXPECT_TRUE(status([](O& o) { o.n_ubatch = O::kMaxUbatch; }).ok());
  EXPECT_TRUE(
      status([](O& o) { o.n_idle_sessions = O::kMaxIdleSessions; }).ok());
  const auto expect_named = [&](auto change, const char* field) {
    const absl::Status bad = status(change);
    EXPECT_TRUE(absl::IsInvalidArgument(bad)) << field << ": " << bad;
    EXPECT_THAT(std::string(bad.message()), HasSubstr(field));
  };
  expect_named([](O& o) { o.n_slots = O::kMaxSlots + 1; }, "n_slots");
  expect_named([](O& o) { o.n_slots = 0; }, "n_slots");
  expect_named([](O& o) { o.n_ubatch = O::kMaxUbatch + 1; }, "n_ubatch");
  expect_named([](O& o) { o.n_ubatch = 0; }, "n_ubatch");
  expect_named([](O& o) { o.n_idle_sessions = O::kMaxIdleSessions + 1; },
               "n_idle_sessions");
  expect_named([](O& o) { o.n_idle_sessions = -1; }, "n_idle_sessions");
  EXPECT_TRUE(status([](O& o) { o.n_draft = O::kMaxDraftTokens; }).ok());
  expect_named([](O& o) { o.n_draft = O::kMaxDraftTokens + 1; }, "n_draft");
  expect_named([](O& o) { o.n_draft = -1; }, "n_draft");
  EXPECT_TRUE(status([](O& o) { o.n_parked = O::kMaxParked; }).ok());
  expect_named([](O& o) { o.n_parked = O::kMaxParked + 1; }, "n_parked");
  expect_named([](O& o) { o.n_parked = -1; }, "n_parked");
  expect_named([](O& o) { o.kv_tokens = 0; }, "kv_tokens");
  expect_named([](O& o) { o.n_ctx = 0; }, "n_ctx");
  expect_named([](O& o) { o.n_ctx = -1; }, "n_ctx");
  expect_named([](O& o) { o.max_inference_len = 0; }, "max_inference_len");
  expect_named([](O& o) { o.margin_bytes = -1; }, "margin_bytes");
  EXPECT_TRUE(absl::IsInvalidArgument(
      Layout(Smollm2(), {}, CommittedCpuProfile(), -1).status()));
}

TEST(MemoryPlanTest, KeysAndValuesOfAnyTypeWhoseBlockFitsArePlanned) {
  PlanOptions options = Context(4'096);
  options.k_type = DType::kQ8_0;
  options.v_type = DType::kQ4_0;
  EXPECT_EQ(PlanOf(Smollm2(), options).FindRegion("kv_full")->bytes,
            int64_t{4'096} * 30 * 3 * (64 / 32 * 34 + 64 / 32 * 18));
  options.k_type = DType::kQ4_K;  // blocks of 256 do not divide 64
  EXPECT_TRUE(absl::IsInvalidArgument(
      Layout(Smollm2(), options, CommittedCpuProfile(), kGiB).status()));
}

TEST(MemoryPlanTest, ReportsOverflow) {
  PlanOptions options = Context(16);
  options.margin_bytes = kMax;
  EXPECT_TRUE(absl::IsOutOfRange(
      Layout(Smollm2(), options, CommittedCpuProfile(), kGiB).status()));
  ModelShape shape = Smollm2();
  shape.n_ctx_train = ModelShape::kMaxContext;
  options = Context(ModelShape::kMaxContext);
  options.n_slots = LoadOptions::kMaxSlots;
  EXPECT_TRUE(absl::IsOutOfRange(
      Layout(shape, options, CommittedCpuProfile(), kGiB).status()));
  options.n_ctx
      .reset();  // solving treats what does not fit in int64 as too big
  const auto solved = Layout(shape, options, CommittedCpuProfile(), 512 * kGiB);
  ASSERT_TRUE(solved.ok()) << solved.status();
  EXPECT_TRUE(solved->fits);
}

TEST(MemoryPlanTest, ShapesThatMakeNoSenseAreRejected) {
  const auto status = [](auto change) {
    ModelShape shape = Smollm2();
    change(shape);
    return Layout(shape, {}, CommittedCpuProfile(), kGiB).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(status([](auto& s) { s = {}; })));
  EXPECT_TRUE(
      absl::IsInvalidArgument(status([](auto& s) { s.n_ctx_train = 0; })));
  EXPECT_TRUE(
      absl::IsInvalidArgument(status([](auto& s) { s.layers.clear(); })));
  EXPECT_TRUE(absl::IsInvalidArgument(
      status([](auto& s) { s.layers[3].n_kv_heads = 0; })));
  EXPECT_TRUE(
      absl::IsInvalidArgument(status([](auto& s) { s.weights[0].rows = -5; })));
}

TEST(MemoryPlanTest, Gemma270mStaysWithin32MiBBesideWeightsAndKv) {
  for (int64_t n_ctx = 16; n_ctx <= 32'768;
       n_ctx += n_ctx < 1'024 ? 16 : 1'008) {
    const MemoryPlan plan = PlanOf(Gemma270m(), Context(n_ctx));
    int64_t bytes = 0;
    for (const char* name : {"workspace", "logits", "candidates", "tables"}) {
      bytes += plan.FindRegion(name)->bytes;
    }
    EXPECT_LE(bytes, 32 * kMiB) << n_ctx;
  }
}

TEST(MemoryPlanTest, VocabBytesGrowWithTokensAndMerges) {
  EXPECT_EQ(VocabBytes({"no_vocab", 0, 0, 0, 0}), 0);
  EXPECT_EQ(VocabBytes({"llama", 262'144, 1'000'000, 0, 0}),
            1'000'000 + 262'144 * 9 + 8 * 524'288 + (64 << 10));
  EXPECT_EQ(VocabBytes({"gpt2", 3, 10, 2, 8}),
            10 + 27 + 8 * 8 + 16 * 4 + (64 << 10));
}

TEST(MemoryPlanTest, NumbersForPeopleHaveSeparators) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1'000), "1,000");
  EXPECT_EQ(WithThousands(-123'456), "-123,456");
  EXPECT_EQ(WithThousands(1'234'567), "1,234,567");
}

TEST(ChangedTest, SetsWhatTheChangeHasAndNothingElse) {
  PlanOptions before;
  before.n_slots = 7;
  before.engine.host_weights.experts = true;
  const PlanOptions same = Changed(before, {});
  EXPECT_EQ(same.n_slots, 7);
  EXPECT_EQ(same.n_ctx, std::nullopt);
  EXPECT_EQ(same.max_inference_len, std::nullopt);
  EXPECT_TRUE(same.engine.host_weights.experts);

  const PlanOptions after =
      Changed(before, {.host_weights = {.per_layer_embeddings = true},
                       .n_ubatch = 64,
                       .kv_type = DType::kQ8_0,
                       .n_parked = 0,
                       .n_slots = 2,
                       .n_ctx = 4'096,
                       .max_inference_len = 8'192,
                       .weight_type = DType::kQ4_K});
  EXPECT_TRUE(after.engine.host_weights.experts);
  EXPECT_TRUE(after.engine.host_weights.per_layer_embeddings);
  EXPECT_EQ(after.n_ubatch, 64);
  EXPECT_EQ(after.k_type, DType::kQ8_0);
  EXPECT_EQ(after.v_type, DType::kQ8_0);
  EXPECT_EQ(after.n_parked, 0);
  EXPECT_EQ(after.n_slots, 2);
  EXPECT_EQ(after.n_ctx, 4'096);
  EXPECT_EQ(after.max_inference_len, 8'192);
  EXPECT_EQ(after.engine.weight_type, DType::kQ4_K);
}

}  // namespace
}  // namespace plimsoll::planner
