// Whoever runs beside a stream, and however its prompt is cut: the same bits.
#include "tests/worker/engine/batch_mix.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/sanitized.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::ExpectMixesInChunksChangeNothing;
using ::plimsoll::testing::MixedRequests;
using ::plimsoll::testing::MixedWork;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;

// So many mixes run on each of 64 engines.
constexpr int kMixes = plimsoll::testing::kIsLong        ? 128
                       : plimsoll::testing::kIsSanitized ? 2
                                                         : 16;

class BatchMixTest : public plimsoll::testing::EngineFixture,
                     public ::testing::WithParamInterface<ModelAndKv> {};

TEST_P(BatchMixTest, RandomMixesChangeNoBit) {
  const std::vector<GenerateOptions> requests = MixedRequests();
  EngineSetup setup = {.n_ctx = 320, .kv_type = GetParam().kv_type};
  setup.precision = Precision::kDefault;
  Load(GetParam().model, setup);
  const auto alone = EachAlone(*engine_, requests);
  setup.n_slots = 3;
  setup.n_draft = 4;
  setup.n_idle_sessions = 2;
  const MixedWork work = ExpectMixesInChunksChangeNothing(
      setup, {1, 7, 64, 512},
      [this](const EngineSetup& chunks) {
        Load(GetParam().model, chunks);
        return engine_.get();
      },
      requests, alone, kMixes);
  EXPECT_GT(work.n_cached, 0);
  EXPECT_GT(work.n_guessed, 0);
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
