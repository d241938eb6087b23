// What an engine promises of every family, by its tiny model: neighbours,
// guesses and shared beginnings change no bit; contexts roll; a session is one
// conversation; constraints hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/session_fixture.h"
#include "tests/worker/golden/families.h"
#include "tests/worker/golden/family_models.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/regex_grammar.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::ExpectMixesInChunksChangeNothing;
using ::plimsoll::testing::FamilyModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::kIsLong;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::MixedRequests;
using ::plimsoll::testing::MixedWork;
using ::plimsoll::testing::SameBits;
using ::testing::ContainsRegex;

constexpr int kFamilyMixes = kIsLong ? 16 : 2;  // mixes of each of two engines

class FamilyPromisesTest : public SessionTest,
                           public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const std::string why = plimsoll::testing::WhyNoFamilyModels();
    if (!why.empty()) GTEST_SKIP() << why;
    model_.emplace(GetParam());
  }

  void LoadFamily(EngineSetup setup) {
    setup.kv_type = DType::kF16;
    setup.precision = Precision::kDefault;
    engine_.reset();
    auto engine = LoadEngine(model_->path(), setup);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::optional<FamilyModel> model_;
};

TEST_P(FamilyPromisesTest, RandomMixesChangeNoBit) {
  const std::vector<GenerateOptions> requests = MixedRequests();
  EngineSetup setup = {.n_ctx = 320};
  ASSERT_NO_FATAL_FAILURE(LoadFamily(setup));
  const std::vector<Generated> alone = EachAlone(*engine_, requests);
  size_t n_evictions = 0;
  for (const Generated& one : alone) n_evictions += one.evictions.size();
  EXPECT_GT(n_evictions, 0u) << "no context rolled";
  setup.n_slots = 3;
  setup.n_draft = 4;
  setup.n_idle_sessions = 2;
  const MixedWork work = ExpectMixesInChunksChangeNothing(
      setup, {7, 512},
      [this](const EngineSetup& chunks) {
        LoadFamily(chunks);
        return engine_.get();
      },
      requests, alone, kFamilyMixes);
  EXPECT_GT(work.n_cached, 0) << "no beginning was shared";
  EXPECT_GT(work.n_guessed, 0);
}

TEST_P(FamilyPromisesTest, ASessionIsOneConversation) {
  ASSERT_NO_FATAL_FAILURE(LoadFamily({.n_ctx = 320, .n_slots = 2}));
  Open(Chat("a"));
  const ChatFrame frame = Frame();
  Ids said = frame.opening;
  std::mt19937 random(2);
  int64_t computed = 0;
  for (int turn = 0; turn < 3; ++turn) {
    SCOPED_TRACE(turn);
    if (turn > 0) Append(frame.after_reply, said);
    const Ids content = RandomIds(20 + 15 * turn, random);
    Append(content, said);
    Append(frame.after_user, said);
    const Generated got = Say("a", content, 9);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_TRUE(SameBits(got, Fresh(said, 9)));
    EXPECT_EQ(got.info.n_cached, computed) << "only what is new was computed";
    Append(got.ids(), said);
    // The last token of a reply is computed with the next message.
    computed = static_cast<int64_t>(said.size()) - 1;
  }
}

TEST_P(FamilyPromisesTest, AConstraintHolds) {
  ASSERT_NO_FATAL_FAILURE(LoadFamily({}));
  auto grammar = CompileRegex("[a-f]{3,9}( [0-9]{1,4}){1,2}");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  for (const float temperature : {0.0f, 1.5f}) {
    SCOPED_TRACE(temperature);
    GenerateOptions options =
        plimsoll::testing::Greedy(plimsoll::testing::kPrompt, 40);
    options.ignore_eos = false;
    options.sampling.temperature = temperature;
    options.sampling.seed = 7;
    options.constraint = *grammar;
    const Generated got = Generate(*engine_, options);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.info.reason, FinishReason::kEndToken);
    EXPECT_THAT(got.text, ContainsRegex("^[a-f]{3,9}( [0-9]{1,4}){1,2}$"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyPromisesTest,
                         ::testing::ValuesIn(plimsoll::testing::NamesOfFamilies(
                             /*only_emulated=*/false)),
                         plimsoll::testing::NameOfFamily);

}  // namespace
}  // namespace plimsoll::worker
