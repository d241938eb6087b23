// The models against an independent forward pass, and against themselves: what
// a sequence says depends on its prompt alone.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/json.h"
#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Fnv1a;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::Json;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::RandomModels;
using ::plimsoll::testing::ReadJson;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::TemporaryFile;

const Json& Goldens() {
  static const auto* const kGoldens =
      new Json(ReadJson("tests/testdata/random_models.json").value_or(Json()));
  return *kGoldens;
}

class RandomModelTest : public ::testing::TestWithParam<RandomModel> {
 protected:
  RandomModelTest() : file_(RandomModelBytes(GetParam())) {}

  std::unique_ptr<Engine> Load(const EngineSetup& setup) {
    auto engine = LoadEngine(file_.path(), setup);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  const Json& Cases() const {
    return Goldens().at(GetParam().name).at("cases");
  }

  // Greedy continuation of a golden case's prompt.
  static Generated Continue(Engine& engine, const Json& golden) {
    return Generate(engine,
                    Greedy(golden.at("prompt_ids").get<std::vector<int32_t>>(),
                           static_cast<int64_t>(golden.at("steps").size())));
  }

  // Ids equal to the oracle's and every one of its candidates within
  // `tolerance`.
  static void ExpectAgrees(const Generated& got, const Json& golden,
                           double tolerance) {
    ASSERT_TRUE(got.status.ok()) << got.status;
    ASSERT_EQ(got.tokens.size(), golden.at("steps").size());
    for (size_t i = 0; i < got.tokens.size(); ++i) {
      const Json& step = golden.at("steps").at(i);
      ASSERT_EQ(got.tokens[i].id, step.at("id").get<int64_t>()) << "step " << i;
      std::map<int32_t, float> candidates;
      for (const Candidate& c : got.tokens[i].candidates) {
        candidates[c.id] = c.logprob;
      }
      for (const Json& candidate : step.at("top")) {
        const auto it = candidates.find(
            static_cast<int32_t>(candidate.at(0).get<int64_t>()));
        const double wanted = candidate.at(1).get<double>();
        // The last places may change hands between near-equals.
        const double floor =
            static_cast<double>(got.tokens[i].candidates.back().logprob);
        const double value =
            it == candidates.end() ? floor : static_cast<double>(it->second);
        EXPECT_NEAR(value, wanted, tolerance)
            << "step " << i << " candidate " << candidate.at(0).get<int64_t>();
      }
    }
  }

  TemporaryFile file_;
};

TEST_P(RandomModelTest, IsTheFileThatTheGoldensWereComputedFrom) {
  const auto bytes = RandomModelBytes(GetParam());
  EXPECT_EQ(absl::StrFormat("%016x", Fnv1a(bytes.data(), bytes.size())),
            Goldens().at(GetParam().name).at("file_hash").get<std::string>());
}

TEST_P(RandomModelTest, ExactPrecisionAgreesWithPlainArithmetic) {
  auto engine = Load({});
  ASSERT_NE(engine, nullptr);
  ASSERT_EQ(Cases().size(), 5u);
  for (const Json& golden : Cases()) {
    SCOPED_TRACE(golden.at("prompt_ids").size());
    ExpectAgrees(Continue(*engine, golden), golden, 5e-4);
  }
}

TEST_P(RandomModelTest, ExactPrecisionInSmallChunksAgreesToo) {
  auto engine = Load({.n_ubatch = 7});
  ASSERT_NE(engine, nullptr);
  for (const Json& golden : Cases()) {
    SCOPED_TRACE(golden.at("prompt_ids").size());
    ExpectAgrees(Continue(*engine, golden), golden, 5e-4);
  }
}

TEST_P(RandomModelTest, DefaultPrecisionStaysClose) {
  auto engine =
      Load({.kv_type = DType::kF16, .precision = Precision::kDefault});
  ASSERT_NE(engine, nullptr);
  for (const Json& golden : Cases()) {
    SCOPED_TRACE(golden.at("prompt_ids").size());
    const Generated got = Continue(*engine, golden);
    ASSERT_TRUE(got.status.ok()) << got.status;
    std::map<int64_t, double> wanted;
    for (const Json& c : golden.at("steps").at(0).at("top")) {
      wanted[c.at(0).get<int64_t>()] = c.at(1).get<double>();
    }
    int n_common = 0;
    for (const Candidate& c : got.tokens.front().candidates) {
      const auto it = wanted.find(c.id);
      if (it == wanted.end()) continue;
      ++n_common;
      EXPECT_NEAR(static_cast<double>(c.logprob), it->second, 0.1);
    }
    EXPECT_GE(n_common, 8);
  }
}

TEST_P(RandomModelTest, TheLastPositionOfTheContextIsUsed) {
  const Json& golden = Cases().at(4);
  const auto n_prompt = static_cast<int64_t>(golden.at("prompt_ids").size());
  for (const int64_t n_more : {0, 1, 5}) {
    auto engine = Load({.n_ctx = n_prompt + n_more});
    ASSERT_NE(engine, nullptr);
    const Generated got = Generate(
        *engine,
        Greedy(golden.at("prompt_ids").get<std::vector<int32_t>>(), 0));
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.info.reason, FinishReason::kLength);
    ASSERT_EQ(got.info.n_generated, n_more + 1);
    for (int64_t i = 0; i <= n_more; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(got.tokens[at].id,
                golden.at("steps").at(at).at("id").get<int64_t>());
    }
  }
}

// The prompts of the sameness tests: short, and longer than a page and every
// window.
std::vector<GenerateOptions> SamenessRequests() {
  std::mt19937 random(99);
  std::vector<GenerateOptions> requests;
  for (const size_t n : {3u, 70u, 17u, 131u, 1u, 40u}) {
    std::vector<int32_t> prompt;
    for (size_t i = 0; i < n; ++i) {
      prompt.push_back(static_cast<int32_t>(random() % 323));
    }
    requests.push_back(Greedy(prompt, 10));
  }
  // One that draws, and asks for no candidates.
  requests[2].sampling = {.temperature = 1.3f, .top_k = 0, .seed = 5};
  requests[4].top_logprobs = 0;
  requests[5].sampling = {.temperature = 0.7f, .top_k = 20, .seed = 6};
  return requests;
}

std::vector<Generated> OneByOne(Engine& engine) {
  std::vector<Generated> results;
  for (const GenerateOptions& request : SamenessRequests()) {
    results.push_back(Generate(engine, request));
    EXPECT_TRUE(results.back().status.ok()) << results.back().status;
  }
  return results;
}

// All requests at once in a random order, each submitted while a random number
// of tokens of the one before has come.
std::vector<Generated> Mixed(Engine& engine, uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<GenerateOptions> requests = SamenessRequests();
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::shared_ptr<CollectSink>> sinks(requests.size());
  for (auto& sink : sinks) sink = std::make_shared<CollectSink>();
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const auto after = static_cast<int64_t>(1 + random() % 6);
    const size_t next = order[i + 1];
    sinks[order[i]]->after_output = [&, after, next](int64_t n_tokens) {
      if (n_tokens != after) return;
      EXPECT_TRUE(engine.Submit(requests[next], sinks[next]).ok());
    };
  }
  EXPECT_TRUE(engine.Submit(requests[order[0]], sinks[order[0]]).ok());
  for (size_t i = 0; i < order.size(); ++i) sinks[order[i]]->Await();
  std::vector<Generated> results;
  for (auto& sink : sinks) results.push_back(sink->Await());
  return results;
}

void ExpectSame(const std::vector<Generated>& got,
                const std::vector<Generated>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].status.ok()) << got[i].status;
    EXPECT_TRUE(SameBits(got[i], wanted[i])) << "request " << i;
  }
}

struct Kind {
  Precision precision;
  DType k_type;
  DType v_type;

  EngineSetup Setup() const {
    return {.kv_type = k_type, .v_type = v_type, .precision = precision};
  }
};

// The kinds whose blocks are filled by the model's heads.
std::vector<Kind> KindsOf(const RandomModel& model) {
  std::vector<Kind> kinds = {{Precision::kExact, DType::kF32, DType::kF32},
                             {Precision::kExact, DType::kF16, DType::kF16},
                             {Precision::kDefault, DType::kF32, DType::kF32},
                             {Precision::kDefault, DType::kF16, DType::kF16},
                             {Precision::kDefault, DType::kBF16, DType::kBF16},
                             {Precision::kDefault, DType::kQ8_0, DType::kQ8_0},
                             {Precision::kExact, DType::kQ8_0, DType::kF16},
                             {Precision::kDefault, DType::kQ4_0, DType::kQ5_1}};
  if (model.head_dim % 32 != 0) kinds.resize(5);
  return kinds;
}

TEST_P(RandomModelTest, ChunksAndThreadsChangeNoBit) {
  for (const Kind& kind : KindsOf(GetParam())) {
    EngineSetup setup = kind.Setup();
    setup.n_threads = 1;
    auto alone = Load(setup);
    ASSERT_NE(alone, nullptr);
    const std::vector<Generated> wanted = OneByOne(*alone);
    for (const int64_t n_ubatch : {1, 7, 64, 512}) {
      for (const int n_threads : {1, 2, 3}) {
        // A full product costs time and adds little.
        if (n_threads == 1 && n_ubatch == 512) continue;
        if (n_threads == 3 && n_ubatch != 7 && n_ubatch != 512) continue;
        SCOPED_TRACE(
            absl::StrFormat("n_ubatch %d, %d threads", n_ubatch, n_threads));
        setup.n_ubatch = n_ubatch;
        setup.n_threads = n_threads;
        auto engine = Load(setup);
        ASSERT_NE(engine, nullptr);
        ExpectSame(OneByOne(*engine), wanted);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(RandomModelTest, CompanyChangesNoBit) {
  uint32_t seed = 1;
  for (const Kind& kind : KindsOf(GetParam())) {
    EngineSetup setup = kind.Setup();
    auto alone = Load(setup);
    ASSERT_NE(alone, nullptr);
    const std::vector<Generated> wanted = OneByOne(*alone);
    for (const int64_t n_ubatch : {2, 7, 64, 512}) {
      SCOPED_TRACE(n_ubatch);
      setup.n_ubatch = n_ubatch;
      setup.n_slots = n_ubatch == 64 ? 6 : 3;
      auto engine = Load(setup);
      ASSERT_NE(engine, nullptr);
      ExpectSame(Mixed(*engine, seed++), wanted);
      if (HasFailure()) return;
    }
  }
}

TEST_P(RandomModelTest, AShortContextChangesNoBitWithinIt) {
  const auto request = Greedy({4, 100, 200, 300, 9}, 27);
  for (const Kind& kind : KindsOf(GetParam())) {
    EngineSetup small = kind.Setup();
    small.n_ctx = std::nullopt;
    small.max_inference_len = 32;
    EngineSetup large = small;
    large.max_inference_len = testing::kRandomContext;
    auto short_engine = Load(small);
    auto long_engine = Load(large);
    ASSERT_NE(short_engine, nullptr);
    ASSERT_NE(long_engine, nullptr);
    EXPECT_EQ(short_engine->n_ctx(), 32);
    EXPECT_EQ(long_engine->n_ctx(), testing::kRandomContext);
    const Generated a = Generate(*short_engine, request);
    const Generated b = Generate(*long_engine, request);
    EXPECT_EQ(a.info.n_generated, 27);
    EXPECT_TRUE(SameBits(a, b));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomModelTest,
                         ::testing::ValuesIn(RandomModels()),
                         [](const auto& test) { return test.param.name; });

// A cap of 0.001 leaves logits that differ by 0.002 at most, so that every
// token is about as likely as any other.
TEST(LogitCapTest, TheFileOfAGemma3CapsItsLogits) {
  RandomModel model = testing::FindRandomModel("gemma3_capped");
  const GenerateOptions request = Greedy(testing::RandomIds(40, 7), 1);
  const auto spread_at = [&](float cap) {
    model.logit_cap = cap;
    const TemporaryFile file(RandomModelBytes(model));
    auto engine = LoadEngine(file.path(), {.precision = Precision::kExact});
    EXPECT_TRUE(engine.ok()) << engine.status();
    const Generated made = Generate(**engine, request);
    EXPECT_TRUE(made.status.ok()) << made.status;
    const auto& likely = made.tokens.front().candidates;
    return likely.front().logprob - likely.back().logprob;
  };
  const float plain = spread_at(0);
  EXPECT_LT(spread_at(8), plain);
  EXPECT_GT(plain, 0.01f);
  EXPECT_LT(spread_at(0.001f), 0.0021f);
}

TEST(ProductScaleTest, AScaleUndoesLargerWeightsToTheBit) {
  for (const char* name : {"llama_half", "qwen3moe_q4_0", "qwen2moe_q8_0"}) {
    RandomModel model = testing::FindRandomModel(name);
    const TemporaryFile plain(RandomModelBytes(model));
    model.scale_exponent = 2;
    const TemporaryFile scaled(RandomModelBytes(model));
    for (const Precision precision : {Precision::kExact, Precision::kDefault}) {
      SCOPED_TRACE(name);
      auto a = LoadEngine(plain.path(), {.precision = precision});
      auto b = LoadEngine(scaled.path(), {.precision = precision});
      ASSERT_TRUE(a.ok()) << a.status();
      ASSERT_TRUE(b.ok()) << b.status();
      GenerateOptions request = Greedy(testing::RandomIds(40, 7), 5);
      request.prompt_logprobs = true;
      const Generated wanted = Generate(**a, request);
      ASSERT_TRUE(wanted.status.ok()) << wanted.status;
      EXPECT_TRUE(SameBits(Generate(**b, request), wanted));
    }
  }
}

TEST(KvTypeTest, HeadsThatAreNoWholeBlocksAreRefusedWithTheirLayer) {
  const TemporaryFile file(
      RandomModelBytes(testing::FindRandomModel("llama_f32")));
  const auto status =
      LoadEngine(file.path(), {.kv_type = DType::kF32, .v_type = DType::kQ8_0})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("layer 0: a row of 16"),
            absl::string_view::npos)
      << status;
}

TEST(MaxInferenceLenTest, ShrinksTheCacheOfFullAttentionAHundredfold) {
  const TemporaryFile file(
      RandomModelBytes(testing::FindRandomModel("llama_f32")));
  const auto kv_bytes = [&](int64_t max_inference_len) {
    auto engine = LoadEngine(
        file.path(),
        {.n_ctx = std::nullopt, .max_inference_len = max_inference_len});
    EXPECT_TRUE(engine.ok()) << engine.status();
    if (!engine.ok()) return int64_t{0};
    return (*engine)->plan().FindRegion("kv_full")->bytes;
  };
  EXPECT_GT(kv_bytes(32), 0);
  EXPECT_GE(kv_bytes(4096), 100 * kv_bytes(32));
}

}  // namespace
}  // namespace plimsoll::worker
