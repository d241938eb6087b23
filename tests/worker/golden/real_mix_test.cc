// The real models' streams beside others: the same bits as alone.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/golden/real_models.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Exists;
using ::plimsoll::testing::ExpectMixesInChunksChangeNothing;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kGemma;
using ::plimsoll::testing::kIsSanitized;
using ::plimsoll::testing::kSmolLm;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::ModelPath;

constexpr int kMixes = kIsSanitized ? 1 : 5;  // mixes of each of four engines

class RealMixTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Engine> Load(const EngineSetup& setup) {
    auto engine = LoadEngine(ModelPath(GetParam()), setup);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
};

TEST_P(RealMixTest, RandomMixesChangeNoBit) {
  if (!Exists(ModelPath(GetParam()))) {
    GTEST_SKIP() << "the model " << GetParam() << " is not in the cache";
  }
  EngineSetup setup = {.n_ctx = 640, .precision = Precision::kDefault};
  std::vector<GenerateOptions> requests;
  {
    const auto engine = Load(setup);
    ASSERT_NE(engine, nullptr);
    for (const char* text :
         {"The sea is", "one two three four one two three four one two",
          "int main() { return", "Why is the sky blue? Because the light",
          "a b c d e f g a b c d e f g a b c d e f g a b",
          "Once upon a time there was a ship whose line was painted red. The "
          "ship was old. The ship was"}) {
      auto ids = engine->tokenizer().Encode(text, ParseSpecial::kNo);
      ASSERT_TRUE(ids.ok()) << ids.status();
      requests.push_back(GreedyWithTop(*std::move(ids), 12, 5));
    }
  }
  for (const DType kv_type : {DType::kF32, DType::kQ8_0}) {
    setup = {.n_ctx = 640, .kv_type = kv_type};
    setup.precision = Precision::kDefault;
    std::vector<plimsoll::testing::Generated> alone;
    {
      const auto engine = Load(setup);
      ASSERT_NE(engine, nullptr);
      alone = EachAlone(*engine, requests);
    }
    setup.n_slots = 4;
    setup.n_draft = 3;
    std::unique_ptr<Engine> engine;
    ExpectMixesInChunksChangeNothing(
        setup, {7, 512},
        [&](const EngineSetup& chunks) {
          engine = nullptr;  // one at a time
          engine = Load(chunks);
          return engine.get();
        },
        requests, alone, kMixes);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RealMixTest,
    ::testing::ValuesIn(plimsoll::testing::RealModelsOfLongTests()),
    plimsoll::testing::NameOfModel);

}  // namespace
}  // namespace plimsoll::worker
