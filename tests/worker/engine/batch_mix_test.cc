// Whoever runs beside a stream, and however its prompt is cut: the same bits.
#include "tests/worker/engine/batch_mix.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/sanitized.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::ExpectMixesChangeNothing;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::RandomIds;

// So many mixes run on each of 64 engines.
constexpr int kMixes = plimsoll::testing::kIsLong        ? 128
                       : plimsoll::testing::kIsSanitized ? 2
                                                         : 16;

// Short and long prompts, many of which begin alike; greedy and drawn; some of
// them roll.
std::vector<GenerateOptions> Requests() {
  std::mt19937 random(77);
  const std::vector<int32_t> common = RandomIds(130, random);
  std::vector<GenerateOptions> requests;
  for (int i = 0; i < 24; ++i) {
    const auto n_common = static_cast<int64_t>(i % 3 == 0 ? random() % 130 : 0);
    std::vector<int32_t> prompt(common.begin(), common.begin() + n_common);
    const std::vector<int32_t> own =
        RandomIds(1 + static_cast<int64_t>(random() % 40), random);
    prompt.insert(prompt.end(), own.begin(), own.end());
    // What repeats itself can be guessed.
    if (i % 2 == 0) prompt.insert(prompt.end(), prompt.begin(), prompt.end());
    requests.push_back(Greedy(std::vector<int32_t>(prompt),
                              1 + static_cast<int64_t>(random() % 24), 3));
    GenerateOptions& request = requests.back();
    if (i % 4 == 0) request.max_tokens = 120;  // greedy ones fall into loops
    if (i % 5 == 1) {
      request.sampling = {.temperature = 1, .seed = random()};
      request.logit_bias.repetition_penalty = 1.2f;
    }
    if (i % 6 != 2) continue;
    request.roll.policy = ContextPolicy::kRoll;
    request.max_tokens = 300;
    request.roll.pin_tokens = i % 4 == 0 ? 0 : 70;
  }
  return requests;
}

class BatchMixTest : public plimsoll::testing::EngineFixture,
                     public ::testing::WithParamInterface<ModelAndKv> {};

TEST_P(BatchMixTest, RandomMixesChangeNoBit) {
  const std::vector<GenerateOptions> requests = Requests();
  EngineSetup setup = {.n_ctx = 320, .kv_type = GetParam().kv_type};
  setup.precision = Precision::kDefault;
  Load(GetParam().model, setup);
  const auto alone = EachAlone(*engine_, requests);
  int64_t n_cached = 0;
  int64_t n_guessed = 0;
  uint32_t seed = 0;
  for (const int64_t n_ubatch : {1, 7, 64, 512}) {
    SCOPED_TRACE(n_ubatch);
    setup.n_ubatch = n_ubatch;
    setup.n_slots = 3;
    setup.n_draft = 4;
    setup.n_idle_sessions = 2;
    Load(GetParam().model, setup);
    ExpectMixesChangeNothing(*engine_, requests, alone, kMixes, ++seed);
    n_cached += engine_->CurrentLoad().cached_tokens;
    n_guessed += engine_->CurrentLoad().draft_tokens;
  }
  EXPECT_GT(n_cached, 0);
  EXPECT_GT(n_guessed, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchMixTest,
    ::testing::Values(ModelAndKv{"llama_q4_1", DType::kF32},
                      ModelAndKv{"gemma_q5_0", DType::kQ8_0},
                      ModelAndKv{"gemma_q5_0", DType::kQ4_0}),
    NameOfModelAndKv);

// What other families and types add: biases, both soft-caps, values from
// tables, experts, attention sinks, heads of two widths, values that are keys,
// experts beside a dense FFN, shared keys, per-layer embeddings, several
// residual streams, latent attention, and layers with states.
INSTANTIATE_TEST_SUITE_P(
    Families, BatchMixTest,
    ::testing::Values(ModelAndKv{"qwen2_q8_0", DType::kF16},
                      ModelAndKv{"gemma2_q5_0", DType::kF16},
                      ModelAndKv{"llama_codes", DType::kF16},
                      ModelAndKv{"qwen3moe_q4_0", DType::kF16},
                      ModelAndKv{"qwen2moe_q8_0", DType::kF16},
                      ModelAndKv{"gpt_oss_q4_0", DType::kQ8_0},
                      ModelAndKv{"gemma4_keys", DType::kQ8_0},
                      ModelAndKv{"gemma4_experts", DType::kF16},
                      ModelAndKv{"gemma4_shared", DType::kF16},
                      ModelAndKv{"gemma3n_q5_0", DType::kF16},
                      ModelAndKv{"gemma4_shared", DType::kQ5_1},
                      ModelAndKv{"deepseek2_q8_0", DType::kQ8_0},
                      ModelAndKv{"deepseek2_q8_0", DType::kQ4_0},
                      ModelAndKv{"lfm2_q8_0", DType::kF16},
                      ModelAndKv{"qwen35_q8_0", DType::kQ8_0},
                      ModelAndKv{"qwen3next_q8_0", DType::kF16},
                      ModelAndKv{"granitehybrid_q8_0", DType::kF16},
                      ModelAndKv{"nemotron_h_q8_0", DType::kF16}),
    NameOfModelAndKv);

}  // namespace
}  // namespace plimsoll::worker
