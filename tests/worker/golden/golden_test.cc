// The two real models against an oracle's completions, through the engine.
// Skipped visibly where the models or the shared data are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/golden/closeness.h"
#include "tests/worker/golden/real_models.h"
#include "tests/worker/json.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CandidatesOf;
using ::plimsoll::testing::Closeness;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Exists;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::Json;
using ::plimsoll::testing::kGemma;
using ::plimsoll::testing::kSeesThreads;
using ::plimsoll::testing::kSmolLm;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::MeasureCloseness;
using ::plimsoll::testing::ModelPath;
using ::plimsoll::testing::ReadJson;

std::string GoldenPath(const std::string& model) {
  return model == kGemma ? "../shared/golden/gemma3-270m.public.json"
                         : "../shared/golden/smollm2-135m.public.json";
}

EngineSetup SetupFor(Precision precision) {
  EngineSetup setup;
  setup.n_ctx = 2048;
  setup.precision = precision;
  setup.kv_type = precision == Precision::kExact ? DType::kF32 : DType::kF16;
  return setup;
}

std::unique_ptr<Engine> Load(const std::string& model,
                             const EngineSetup& setup) {
  auto engine = LoadEngine(ModelPath(model), setup);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// True if the oracle's own first two are so close that either may win.
bool IsTossUp(const Json& step) {
  return step.at("top").at(0).at(1).get<double>() -
             step.at("top").at(1).at(1).get<double>() <=
         0.01;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!Exists(ModelPath(GetParam()))) {
      GTEST_SKIP() << "the model " << GetParam() << " is not in the cache";
    }
  }

  std::optional<Json> Completions() {
    const auto json = ReadJson(GoldenPath(GetParam()));
    if (!json) return std::nullopt;
    return (*json).at("completions");
  }
};

TEST_P(GoldenTest, ExactPrecisionGivesTheOraclesTokensAndProbabilities) {
  const auto completions = Completions();
  if (!completions) GTEST_SKIP() << "no shared data beside the source";
  auto engine = Load(GetParam(), SetupFor(Precision::kExact));
  ASSERT_NE(engine, nullptr);
  double worst = 0;
  int n_tokens = 0;
  for (const Json& golden : *completions) {
    SCOPED_TRACE(golden.at("prompt").get<std::string>());
    const Generated got = Generate(
        *engine,
        GreedyWithTop(golden.at("prompt_ids").get<std::vector<int32_t>>(),
                      static_cast<int64_t>(golden.at("steps").size()), 12));
    ASSERT_TRUE(got.status.ok()) << got.status;
    for (size_t i = 0; i < golden.at("steps").size(); ++i) {
      const Json& step = golden.at("steps").at(i);
      ++n_tokens;
      const auto candidates = CandidatesOf(got.tokens[i]);
      for (const Json& c : step.at("top")) {
        const auto it = candidates.find(c.at(0).get<int64_t>());
        ASSERT_NE(it, candidates.end()) << "step " << i;
        const double error = std::abs(it->second - c.at(1).get<double>());
        EXPECT_LE(error, 0.02)
            << "step " << i << " id " << c.at(0).get<int64_t>();
        worst = std::max(worst, error);
      }
      if (got.tokens[i].id == step.at("id").get<int64_t>()) continue;
      EXPECT_TRUE(IsTossUp(step)) << "step " << i;
      break;  // another token: what follows has another context
    }
  }
  std::printf("[ exact    ] %s: %d tokens, worst log-probability error %.5f\n",
              GetParam(), n_tokens, worst);
}

// How close both models together are with keys and values of `kv_type`. It is
// nullopt if a model or the shared data is absent.
std::optional<Closeness> MeasureBoth(DType kv_type) {
  Closeness all;
  for (const char* model : {kSmolLm, kGemma}) {
    const auto json = ReadJson(GoldenPath(model));
    if (!Exists(ModelPath(model)) || !json) return std::nullopt;
    EngineSetup setup = SetupFor(Precision::kDefault);
    setup.kv_type = kv_type;
    auto engine = Load(model, setup);
    if (engine == nullptr) return Closeness();
    const Closeness one = MeasureCloseness(*engine, (*json).at("completions"));
    std::printf("[ kv %-5s ] %s: prefix %.3f, error mean %.3f worst %.3f\n",
                DTypeName(kv_type).data(), model, one.prefix / one.n,
                one.error / one.n, one.worst);
    all.Add(one);
  }
  std::printf("[ kv %-5s ] both: prefix %.3f, error mean %.3f worst %.3f\n",
              DTypeName(kv_type).data(), all.prefix / all.n, all.error / all.n,
              all.worst);
  return all;
}

class GoldenClosenessTest : public ::testing::TestWithParam<DType> {};

TEST_P(GoldenClosenessTest, DefaultPrecisionIsCloseToTheOracle) {
  if (kSeesThreads) GTEST_SKIP() << "numbers do not depend on a sanitizer";
  const auto all = MeasureBoth(GetParam());
  if (!all) GTEST_SKIP() << "a model or the shared data is not there";
  ASSERT_GT(all->n, 0);
  // Q8_0 is five times as coarse as bf16: greedy paths part at more near-ties.
  EXPECT_GE(all->prefix / all->n, GetParam() == DType::kQ8_0 ? 0.65 : 0.72);
  EXPECT_LE(all->error / all->n, 0.15);
  EXPECT_LE(all->worst, 0.6);
}

INSTANTIATE_TEST_SUITE_P(
    KvTypes, GoldenClosenessTest,
    ::testing::ValuesIn(plimsoll::testing::kIsLong
                            ? std::vector<DType>{DType::kF16, DType::kQ8_0}
                            : std::vector<DType>{DType::kF16}),
    [](const auto& test) { return std::string(DTypeName(test.param).data()); });

// Completions known from the models' own arithmetic: logits of the five most
// likely next tokens (only their differences are seen here) and greedy ids.
struct KnownCase {
  const char* model;
  std::vector<int32_t> prompt;
  std::vector<std::pair<int32_t, double>> top;
  std::vector<int32_t> greedy;
};

TEST_P(GoldenTest, KnownCompletionsComeOut) {
  const std::vector<KnownCase> cases = {
      {kSmolLm,
       {504, 3575, 282, 4649, 314},
       {{7042, 17.371},
        {260, 14.889},
        {4528, 13.245},
        {2250, 13.009},
        {1315, 12.952}},
       {7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34}},
      {kSmolLm,
       {1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520,
        9531},
       {{198, 36.452},
        {2, 27.710},
        {1116, 26.935},
        {3805, 26.522},
        {1, 25.684}},
       {198, 504, 3575, 282, 4649, 314, 7042, 30, 2, 198}},
      {kGemma,
       {2, 818, 5279, 529, 7001, 563},
       {{506, 19.091},
        {496, 18.548},
        {9079, 18.269},
        {886, 18.113},
        {3224, 17.784}},
       {506, 5279, 529, 506, 2891, 529, 7001, 236761, 1030, 563}},
      {kGemma,
       {2, 14946, 3324, 496, 990, 236764},
       {{993, 24.021},
        {496, 23.575},
        {528, 23.563},
        {564, 23.122},
        {506, 22.971}},
       {993, 691, 496, 2268, 3953, 7489, 60708, 236761, 2625, 691}}};
  auto engine = Load(GetParam(), SetupFor(Precision::kExact));
  ASSERT_NE(engine, nullptr);
  for (const KnownCase& known : cases) {
    if (known.model != std::string(GetParam())) continue;
    const Generated got = Generate(*engine, Greedy(known.prompt, 10));
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.ids(), known.greedy);
    const auto& candidates = got.tokens[0].candidates;
    for (size_t i = 0; i < known.top.size(); ++i) {
      EXPECT_EQ(candidates[i].id, known.top[i].first);
      const double below = static_cast<double>(candidates[0].logprob) -
                           static_cast<double>(candidates[i].logprob);
      EXPECT_NEAR(below, known.top[0].second - known.top[i].second, 0.02);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values(kSmolLm, kGemma),
                         plimsoll::testing::NameOfModel);

// 600 tokens whose last position tells a window of 512 from 511, 513 and none:
// the logit of the most likely token is known, so its log-probability gives the
// log-sum-exp.
TEST(WindowTest, SeesExactlyItsTokens) {
  if (!Exists(ModelPath(kGemma))) {
    GTEST_SKIP() << "the model " << kGemma << " is not in the cache";
  }
  constexpr double kLogSumExp = -0.4233;  // 511: -0.3768, 513: -0.2105
  constexpr double kTopLogit = -5.4875;
  std::vector<int32_t> prompt = {2};
  for (int i = 0; i < 599; ++i) {
    prompt.push_back((7919 * i + 13) % 200'000 + 1'000);
  }
  for (const int64_t n_ubatch : {512, 100}) {
    EngineSetup setup = SetupFor(Precision::kExact);
    setup.n_ubatch = n_ubatch;
    auto engine = Load(kGemma, setup);
    ASSERT_NE(engine, nullptr);
    const Generated got = Generate(*engine, Greedy(prompt, 1));
    ASSERT_TRUE(got.status.ok()) << got.status;
    const auto& candidates = got.tokens[0].candidates;
    ASSERT_EQ(candidates[0].id, 236764);
    EXPECT_EQ(candidates[1].id, 236945);
    EXPECT_EQ(candidates[2].id, 8455);
    const double logprob = static_cast<double>(candidates[0].logprob);
    std::printf("[ window   ] n_ubatch %d: log-sum-exp %.4f\n",
                static_cast<int>(n_ubatch), kTopLogit - logprob);
    EXPECT_NEAR(kTopLogit - logprob, kLogSumExp, 0.02);
  }
}

}  // namespace
}  // namespace plimsoll::worker
