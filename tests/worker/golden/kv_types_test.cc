// The two real models with every element type of keys and values: how far
// their first steps are from those with float32. Skipped visibly where the
// models are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/golden/real_models.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Exists;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kGemma;
using ::plimsoll::testing::kSmolLm;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::ModelPath;

// A beginning, and lengths to which the model itself continues it with float32
// keys and values.
const std::vector<int32_t>& Beginning(const std::string& model) {
  static const auto* const kSmolLmText =
      new std::vector<int32_t>{504, 3575, 282, 4649, 314};
  static const auto* const kGemmaText =
      new std::vector<int32_t>{2, 14946, 3324, 496, 990, 236764};
  return model == kGemma ? *kGemmaText : *kSmolLmText;
}
constexpr int64_t kContinued[] = {0, 10, 50, 150, 300};
constexpr int64_t kLongest = 300;
constexpr size_t kTop = 6;

std::unique_ptr<Engine> Load(const std::string& model, DType k, DType v) {
  EngineSetup setup;
  setup.n_ctx = 2048;
  setup.precision = Precision::kDefault;
  setup.kv_type = k;
  setup.v_type = v;
  auto engine = LoadEngine(ModelPath(model), setup);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

struct Distance {
  double mean = 0;  // mean of the largest error of each step
  double worst = 0;
  int same = 0;  // steps with the same token
};

// First steps over the candidates that are most likely with float32; one that
// is missing counts 1.
Distance Between(const std::vector<TokenOutput>& got,
                 const std::vector<TokenOutput>& wanted) {
  Distance distance;
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::map<int32_t, float> candidates;
    for (const Candidate& c : got[i].candidates) candidates[c.id] = c.logprob;
    double error = 0;
    for (size_t c = 0; c < kTop; ++c) {
      const Candidate& candidate = wanted[i].candidates[c];
      const auto it = candidates.find(candidate.id);
      const double off = it == candidates.end()
                             ? 1.0
                             : std::abs(static_cast<double>(it->second) -
                                        static_cast<double>(candidate.logprob));
      error = std::max(error, off);
    }
    distance.mean += error / static_cast<double>(wanted.size());
    distance.worst = std::max(distance.worst, error);
    distance.same += got[i].id == wanted[i].id ? 1 : 0;
  }
  return distance;
}

std::vector<TokenOutput> FirstSteps(
    Engine& engine, const std::vector<std::vector<int32_t>>& prompts) {
  std::vector<TokenOutput> steps;
  for (const auto& prompt : prompts) {
    const Generated got = Generate(engine, GreedyWithTop(prompt, 1, 20));
    EXPECT_TRUE(got.status.ok()) << got.status;
    steps.push_back(got.tokens.empty() ? TokenOutput() : got.tokens[0]);
  }
  return steps;
}

class KvTypesTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!Exists(ModelPath(GetParam()))) {
      GTEST_SKIP() << "the model " << GetParam() << " is not in the cache";
    }
    if (plimsoll::testing::kSeesThreads) {
      GTEST_SKIP() << "numbers do not depend on a sanitizer";
    }
  }
};

TEST_P(KvTypesTest, FirstStepsAreCloseToThoseWithFloat32) {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<TokenOutput> wanted;
  {
    auto engine = Load(GetParam(), DType::kF32, DType::kF32);
    ASSERT_NE(engine, nullptr);
    const Generated text =
        Generate(*engine, GreedyWithTop(Beginning(GetParam()), kLongest, 0));
    ASSERT_TRUE(text.status.ok()) << text.status;
    const std::vector<int32_t> ids = text.ids();
    for (const int64_t n : kContinued) {
      prompts.push_back(Beginning(GetParam()));
      prompts.back().insert(prompts.back().end(), ids.begin(), ids.begin() + n);
    }
    wanted = FirstSteps(*engine, prompts);
  }
  struct Types {
    DType k;
    DType v;
    double mean;
    double worst;
  };
  for (const Types& types : {Types{DType::kF16, DType::kF16, 0.02, 0.05},
                             {DType::kBF16, DType::kBF16, 0.1, 0.3},
                             {DType::kQ8_0, DType::kF16, 0.2, 0.5},
                             {DType::kQ8_0, DType::kQ8_0, 0.2, 0.5},
                             {DType::kQ5_1, DType::kQ5_1, 0.6, 1.2},
                             {DType::kQ4_0, DType::kQ4_0, 1.6, 4.0}}) {
    auto engine = Load(GetParam(), types.k, types.v);
    ASSERT_NE(engine, nullptr);
    const Distance distance = Between(FirstSteps(*engine, prompts), wanted);
    std::printf(
        "[ kv types ] %s %s,%s: error mean %.4f worst %.4f, %d of %d "
        "tokens the same\n",
        GetParam(), DTypeName(types.k).data(), DTypeName(types.v).data(),
        distance.mean, distance.worst, distance.same,
        static_cast<int>(wanted.size()));
    EXPECT_LE(distance.mean, types.mean) << DTypeName(types.k);
    EXPECT_LE(distance.worst, types.worst) << DTypeName(types.k);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, KvTypesTest,
    ::testing::ValuesIn(plimsoll::testing::RealModelsOfLongTests()),
    plimsoll::testing::NameOfModel);

}  // namespace
}  // namespace plimsoll::worker
