// What an engine promises of a context that rolls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kIsSanitized;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::ResidentBytes;
using ::plimsoll::testing::SameBits;
using ::testing::HasSubstr;

GenerateOptions RollingBy(RollMethod method, std::vector<int32_t> prompt,
                          int64_t max_tokens) {
  GenerateOptions options = Greedy(std::move(prompt), max_tokens);
  options.roll.policy = ContextPolicy::kRoll;
  options.roll.method = method;
  return options;
}

GenerateOptions Rolling(std::vector<int32_t> prompt, int64_t max_tokens) {
  return RollingBy(RollMethod::kShift, std::move(prompt), max_tokens);
}

// The tokens that were still attended when the first token was generated.
std::vector<int32_t> Kept(const GenerateOptions& options,
                          const std::vector<Eviction>& evictions) {
  std::vector<int32_t> kept = options.prompt_ids;
  for (const Eviction& eviction : evictions) {
    const auto begin = kept.begin() + options.roll.pin_tokens;
    kept.erase(begin, begin + eviction.n_tokens);
  }
  return kept;
}

// Evictions in the order of the stream, without gaps.
void ExpectInOrder(const std::vector<Eviction>& evictions,
                   const GenerateOptions& options) {
  int64_t position = options.roll.pin_tokens;
  for (const Eviction& eviction : evictions) {
    EXPECT_EQ(eviction.position, position);
    EXPECT_EQ(eviction.n_tokens % 64, 0);
    EXPECT_GT(eviction.n_kept, options.roll.pin_tokens);
    position += eviction.n_tokens;
  }
}

class RollTest : public plimsoll::testing::EngineFixture {};

// With one layer, keys and values depend on their own token alone: what is left
// after an eviction is what a fresh prompt of the kept tokens has.
class OneLayerTest : public RollTest {
 protected:
  void ExpectLikeFresh(const RandomModel& model) {
    Load(model, {.n_ctx = 256});
    for (const int64_t pins : {0, 4, 70}) {
      for (const int64_t n_prompt : {257, 517, 2'560}) {
        SCOPED_TRACE(pins * 10'000 + n_prompt);
        GenerateOptions options = Rolling(RandomIds(n_prompt, 3), 1);
        options.roll.pin_tokens = pins;
        const Generated rolled = Generate(*engine_, options);
        ASSERT_TRUE(rolled.status.ok()) << rolled.status;
        ASSERT_FALSE(rolled.evictions.empty());
        ExpectInOrder(rolled.evictions, options);
        const Generated fresh =
            Generate(*engine_, Greedy(Kept(options, rolled.evictions), 1));
        ASSERT_TRUE(fresh.status.ok()) << fresh.status;
        ASSERT_EQ(rolled.tokens[0].id, fresh.tokens[0].id);
        for (size_t i = 0; i < 10; ++i) {
          const Candidate& a = rolled.tokens[0].candidates[i];
          const Candidate& b = fresh.tokens[0].candidates[i];
          EXPECT_EQ(a.id, b.id) << i;
          // Angles of other positions are rounded otherwise; a few units in
          // the last place of logits below 64.
          EXPECT_NEAR(a.logprob, b.logprob, 5e-5) << i;
        }
      }
    }
  }
};

TEST_F(OneLayerTest, ShiftingIsAFreshPromptOfTheKeptTokens) {
  for (const char* name :
       {"llama_f32", "llama_q4_1", "gemma_q5_0", "gemma4_keys"}) {
    SCOPED_TRACE(name);
    RandomModel model = FindRandomModel(name);
    model.n_layers = 1;
    model.pattern = {false};
    ExpectLikeFresh(model);
  }
}

// The keys of a layer are those of two layers here, which see other rows of the
// residual stream; what they store does not depend on it.
TEST_F(OneLayerTest, ShiftingKeysThatTwoLayersRead) {
  for (const bool has_window : {false, true}) {
    RandomModel model = FindRandomModel("gemma4_shared");
    model.n_layers = 2;
    model.n_shared_kv = 1;
    model.pattern = {has_window, has_window};
    model.has_rope_freqs = !has_window;
    ExpectLikeFresh(model);
  }
}

TEST_F(OneLayerTest, ShiftingAWindowLayerToo) {
  RandomModel model = FindRandomModel("gemma_q5_0");
  model.n_layers = 1;
  model.pattern = {true};
  ExpectLikeFresh(model);
}

class FamilyTest : public RollTest,
                   public ::testing::WithParamInterface<ModelAndKv> {};

TEST_P(FamilyTest, F29RecomputingIsAFreshPromptOfTheKeptTokensBitForBit) {
  Load(GetParam().model,
       {.n_ctx = 256, .kv_type = GetParam().kv_type, .n_threads = 1});
  for (const int64_t n_prompt : {100, 400, 777}) {
    GenerateOptions options =
        RollingBy(RollMethod::kRecompute, RandomIds(n_prompt, 5), 120);
    const Generated rolled = Generate(*engine_, options);
    ASSERT_TRUE(rolled.status.ok()) << rolled.status;
    // Evictions of the prompt come before the first token.
    std::vector<Eviction> early;
    for (const Eviction& eviction : rolled.evictions) {
      if (eviction.position + eviction.n_tokens + eviction.n_kept -
              options.roll.pin_tokens <=
          n_prompt) {
        early.push_back(eviction);
      }
      EXPECT_EQ(eviction.method, RollMethod::kRecompute);
    }
    EXPECT_LT(early.size(), rolled.evictions.size()) << "or too little to see";
    GenerateOptions fresh_options = options;
    fresh_options.prompt_ids = Kept(options, early);
    const Generated fresh = Generate(*engine_, fresh_options);
    EXPECT_TRUE(SameBits(rolled, fresh)) << n_prompt;
  }
}

TEST_P(FamilyTest, ChunksOfAnySizeGiveEqualBits) {
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    const GenerateOptions options = RollingBy(method, RandomIds(500, 11), 150);
    std::optional<Generated> wanted;
    for (const int64_t n_ubatch : {512, 1, 7, 64}) {
      SCOPED_TRACE(n_ubatch);
      Load(GetParam().model, {.n_ctx = 256,
                              .n_ubatch = n_ubatch,
                              .kv_type = GetParam().kv_type,
                              .precision = Precision::kDefault,
                              .n_threads = n_ubatch == 7 ? 3 : 1});
      const Generated got = Generate(*engine_, options);
      ASSERT_TRUE(got.status.ok()) << got.status;
      EXPECT_GE(got.evictions.size(), 4u);
      if (!wanted) wanted = got;
      EXPECT_TRUE(SameBits(got, *wanted));
      EXPECT_EQ(got.evictions.size(), wanted->evictions.size());
    }
  }
}

TEST_P(FamilyTest, NeighboursNeitherChangeNorAreChanged) {
  EngineSetup setup = {
      .n_ctx = 256, .n_ubatch = 64, .kv_type = GetParam().kv_type};
  Load(GetParam().model, setup);
  const std::vector<GenerateOptions> requests = {
      Rolling(RandomIds(300, 1), 200), Greedy(RandomIds(20, 2), 200),
      RollingBy(RollMethod::kRecompute, RandomIds(450, 3), 100),
      Greedy(RandomIds(200, 4), 0)};
  std::vector<Generated> alone;
  for (const GenerateOptions& request : requests) {
    alone.push_back(Generate(*engine_, request));
  }
  setup.n_slots = 4;
  Load(GetParam().model, setup);
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (const GenerateOptions& request : requests) {
    sinks.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(engine_->Submit(request, sinks.back()).ok());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_TRUE(SameBits(sinks[i]->Await(), alone[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FamilyTest,
    ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                      ModelAndKv{"llama_f32", DType::kF16},
                      ModelAndKv{"llama_q4_1", DType::kF16},
                      ModelAndKv{"llama_q4_1", DType::kQ8_0},
                      ModelAndKv{"gemma_q5_0", DType::kF16},
                      ModelAndKv{"gemma_q5_0", DType::kBF16},
                      ModelAndKv{"gemma_q5_0", DType::kQ8_0},
                      ModelAndKv{"gemma_q5_0", DType::kQ4_0},
                      ModelAndKv{"gpt_oss_q4_0", DType::kF16},
                      ModelAndKv{"gemma4_keys", DType::kF16},
                      ModelAndKv{"gemma4_shared", DType::kF16},
                      ModelAndKv{"deepseek2_q8_0", DType::kQ8_0},
                      ModelAndKv{"lfm2_q8_0", DType::kF16},
                      ModelAndKv{"qwen3next_q8_0", DType::kF16}),
    NameOfModelAndKv);

TEST_F(RollTest, NothingRollsBeforeTheContextIsFull) {
  Load("llama_half", {.n_ctx = 256});
  // 4 pinned and three pages.
  const Generated full = Generate(*engine_, Rolling(RandomIds(196, 1), 1));
  EXPECT_TRUE(full.evictions.empty());
  EXPECT_EQ(full.info.n_evictions, 0);
  const Generated over = Generate(*engine_, Rolling(RandomIds(196, 1), 2));
  ASSERT_EQ(over.evictions.size(), 1u);
  EXPECT_EQ(over.evictions[0].position, 4);
  EXPECT_EQ(over.evictions[0].n_tokens, 64);
  EXPECT_EQ(over.evictions[0].n_kept, 132);
  EXPECT_EQ(over.evictions[0].method, RollMethod::kShift);
  EXPECT_EQ(over.info.n_evictions, 1);
  EXPECT_EQ(over.info.n_evicted, 64);
  EXPECT_EQ(over.tokens[0].id, full.tokens[0].id);
}

TEST_F(RollTest, APrefixMayEndInWhatIsGenerated) {
  Load("llama_f32", {.n_ctx = 256});
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    GenerateOptions options = RollingBy(method, {10, 20}, 500);
    options.roll.pin_tokens = 60;
    const Generated got = Generate(*engine_, options);
    ASSERT_TRUE(got.status.ok()) << got.status;
    ExpectInOrder(got.evictions, options);
    if (method == RollMethod::kShift) continue;
    // The last eviction's kept tokens as a prompt go on alike.
    std::vector<int32_t> all = options.prompt_ids;
    for (const int32_t id : got.ids()) all.push_back(id);
    const Eviction& last = got.evictions.back();
    const int64_t next =
        last.position + last.n_tokens + last.n_kept - options.roll.pin_tokens;
    GenerateOptions fresh = options;
    fresh.prompt_ids.assign(all.begin(), all.begin() + 60);
    fresh.prompt_ids.insert(fresh.prompt_ids.end(),
                            all.begin() + last.position + last.n_tokens,
                            all.begin() + next + 1);
    fresh.max_tokens = static_cast<int64_t>(all.size()) - next - 1;
    const std::vector<int32_t> tail(all.begin() + next + 1, all.end());
    EXPECT_EQ(Generate(*engine_, fresh).ids(), tail);
  }
}

TEST_F(RollTest, AContextTooShortForItsWindowIsRecomputed) {
  RandomModel model = FindRandomModel("gemma_q5_0");
  model.window = 160;
  Load(model, {.n_ctx = 256});
  const GenerateOptions options = Rolling(RandomIds(400, 1), 50);
  const Generated got = Generate(*engine_, options);
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_FALSE(got.evictions.empty());
  EXPECT_EQ(got.evictions[0].method, RollMethod::kRecompute);
  GenerateOptions asked = options;
  asked.roll.method = RollMethod::kRecompute;
  EXPECT_TRUE(SameBits(got, Generate(*engine_, asked)));
}

TEST_F(RollTest, AWindowAsLongAsTheContextRollsInPages) {
  RandomModel model = FindRandomModel("gemma_q5_0");
  model.n_layers = 1;
  model.pattern = {true};
  model.window = 256;
  Load(model, {.n_ctx = 256});
  const GenerateOptions options = Rolling(RandomIds(400, 1), 1);
  const Generated rolled = Generate(*engine_, options);
  ASSERT_TRUE(rolled.status.ok()) << rolled.status;
  EXPECT_EQ(rolled.evictions[0].method, RollMethod::kShift);
  const Generated fresh =
      Generate(*engine_, Greedy(Kept(options, rolled.evictions), 1));
  EXPECT_EQ(rolled.tokens[0].id, fresh.tokens[0].id);
  EXPECT_NEAR(rolled.tokens[0].logprob, fresh.tokens[0].logprob, 2e-5);
}

TEST_F(RollTest, ASlowReaderChangesNothing) {
  Load("llama_half", {.n_ctx = 256});
  const GenerateOptions options = Rolling(RandomIds(190, 1), 300);
  const Generated alone = Generate(*engine_, options);
  // Behind from the token after which the context is full.
  for (const int64_t limit : {6, 7, 8}) {
    auto sink = std::make_shared<CollectSink>(limit);
    ASSERT_TRUE(engine_->Submit(options, sink).ok());
    sink->AwaitRefusal();
    sink->Accept();
    engine_->Wake();
    const Generated got = sink->Await();
    EXPECT_TRUE(SameBits(got, alone));
    EXPECT_EQ(got.evictions.size(), alone.evictions.size());
  }
}

TEST_F(RollTest, APrefixThatLeavesTooLittleIsRefusedBeforeAnyCompute) {
  Load("llama_half", {.n_ctx = 256});
  GenerateOptions options = Rolling(RandomIds(200, 1), 1);
  options.roll.pin_tokens = 128;
  EXPECT_TRUE(Generate(*engine_, options).status.ok());
  const int64_t steps = engine_->CurrentLoad().steps;
  options.roll.pin_tokens = 129;
  const absl::Status refused = Generate(*engine_, options).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pin_tokens: 129"));
  EXPECT_EQ(engine_->CurrentLoad().steps, steps);
}

// Counts, and keeps nothing.
class CountingSink final : public TokenSink {
 public:
  bool OnOutput(StepOutput& output) override {
    n_tokens_ += static_cast<int64_t>(output.tokens.size());
    n_evictions_ += static_cast<int64_t>(output.evictions.size());
    if (warm_bytes_ == 0 && n_evictions_ >= 50) warm_bytes_ = ResidentBytes();
    return true;
  }
  void OnEnd(const absl::Status& status, const FinishInfo& info) override {
    last_bytes_ = ResidentBytes();
    end_.OnEnd(status, info);
  }
  bool Abandoned() const override { return false; }

  Generated Await() { return end_.Await(); }
  int64_t n_tokens() const { return n_tokens_; }
  int64_t growth_bytes() const { return last_bytes_ - warm_bytes_; }

 private:
  CollectSink end_;
  int64_t n_tokens_ = 0;
  int64_t n_evictions_ = 0;
  int64_t warm_bytes_ = 0;
  int64_t last_bytes_ = 0;
};

// A sanitizer takes memory and time of its own.
constexpr int64_t kManyTokens = kIsSanitized ? 10'000 : 100'000;
constexpr int64_t kMaxGrowthBytes = kIsSanitized ? INT64_MAX : 1 << 20;

TEST_F(RollTest, AHundredThousandTokensTakeNoMoreMemoryThanAFewThousand) {
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    // Recomputing is slower by design, and a tenth shows as much.
    const bool is_shift = method == RollMethod::kShift;
    const int64_t total = is_shift ? kManyTokens : kManyTokens / 10;
    Load("llama_f32", {.n_ctx = 256, .n_threads = 1});
    GenerateOptions options =
        RollingBy(method, RandomIds(total * 9 / 10, 1), total / 10);
    options.top_logprobs = -1;
    auto sink = std::make_shared<CountingSink>();
    ASSERT_TRUE(engine_->Submit(options, sink).ok());
    const Generated end = sink->Await();
    ASSERT_TRUE(end.status.ok()) << end.status;
    EXPECT_EQ(sink->n_tokens(), total / 10);
    // 196 live tokens of which 64 leave at a time; the last token has no row.
    EXPECT_EQ(end.info.n_evictions, (total - 1 - 196 + 63) / 64);
    EXPECT_EQ(engine_->Memory().device_allocations_after_load, 0);
    EXPECT_LE(sink->growth_bytes(), kMaxGrowthBytes);
  }
}

TEST(RopeAnglesTest, ABillionTokensLaterAnglesAreStillExact) {
  kernels::ThreadPool pool(1);
  const auto backend = kernels::NewCpuBackend(pool);
  constexpr int64_t kRot = 64;
  const std::vector<int64_t> positions = {
      1, 4'095, 1'000'003, 99'999'989, 999'999'937, 1'000'000'000};
  const auto n = static_cast<int64_t>(positions.size());
  for (const double base : {10'000.0, 100'000.0, 1'000'000.0}) {
    std::vector<float> angles(static_cast<size_t>(n * kRot));
    ASSERT_TRUE(backend
                    ->RopeAngles({.positions = positions.data(),
                                  .n_rows = n,
                                  .n_rot = kRot,
                                  .base = base,
                                  .scale = 1.0,
                                  .freq_factors = nullptr,
                                  .magnitude = 1.0f,
                                  .out = angles.data()})
                    .ok());
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t p = 0; p < kRot / 2; ++p) {
        const long double frequency =
            std::pow(static_cast<long double>(base),
                     -2.0L * static_cast<long double>(p) / kRot);
        const long double exact = std::fmod(
            static_cast<long double>(positions[static_cast<size_t>(r)]) *
                frequency,
            2 * std::numbers::pi_v<long double>);
        const auto at = static_cast<size_t>(r * kRot + 2 * p);
        const auto got = std::atan2(static_cast<long double>(angles[at + 1]),
                                    static_cast<long double>(angles[at]));
        EXPECT_NEAR(static_cast<double>(std::remainder(
                        got - exact, 2 * std::numbers::pi_v<long double>)),
                    0, 1e-6)
            << "position " << positions[static_cast<size_t>(r)] << " pair "
            << p;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker
