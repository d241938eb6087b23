// What an engine promises of prompts that begin alike: the same bits, less
// work.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;

using Ids = std::vector<int32_t>;

// `n_common` tokens that all have, then `n_own` of this seed.
Ids Prompt(int64_t n_common, int64_t n_own, uint32_t seed) {
  Ids ids = RandomIds(n_common, 1'000);
  const Ids own = RandomIds(n_own, seed);
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

class SharedPrefixTest : public plimsoll::testing::EngineFixture {};

class SharedPrefixFamilyTest
    : public SharedPrefixTest,
      public ::testing::WithParamInterface<ModelAndKv> {};

// The window of the random gemma models is 16, so these lengths are on both
// sides of it and of pages.
TEST_P(SharedPrefixFamilyTest, HitsPartialHitsAndMissesAreBitEqual) {
  EngineSetup setup = {.n_ctx = 512,
                       .n_slots = 2,
                       .n_ubatch = 100,
                       .kv_type = GetParam().kv_type,
                       .precision = Precision::kDefault};
  setup.n_idle_sessions = 5;
  for (const int64_t n_common : {1, 15, 16, 17, 48, 63, 64, 65, 128, 200}) {
    SCOPED_TRACE(n_common);
    std::vector<GenerateOptions> requests;
    for (const uint32_t seed : {1u, 2u, 3u, 1u, 2u}) {
      requests.push_back(Greedy(Prompt(n_common, 90, seed), 12));
    }
    setup.prefix_cache_bytes = 0;
    Load(GetParam().model, setup);
    std::vector<Generated> cold;
    for (const GenerateOptions& request : requests) {
      cold.push_back(Generate(*engine_, request));
      ASSERT_TRUE(cold.back().status.ok()) << cold.back().status;
      EXPECT_EQ(cold.back().info.n_cached, 0);
    }
    setup.prefix_cache_bytes = INT64_MAX;
    Load(GetParam().model, setup);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      const Generated got = Generate(*engine_, requests[i]);
      EXPECT_TRUE(SameBits(got, cold[i]));
      EXPECT_EQ(got.info.n_prompt, n_common + 90);
      // Two of the same prompt share all but its last page; the third that
      // begins alike all that is common. With window layers the second one
      // only learns where they part.
      const int64_t whole = (n_common + 89) / 64 * 64;
      if (i >= 3) {
        EXPECT_EQ(got.info.n_cached, whole);
      }
      if (i == 2) {
        EXPECT_EQ(got.info.n_cached, n_common / 64 * 64);
      }
    }
    EXPECT_GT(engine_->CurrentLoad().cached_tokens, 0);
  }
}

TEST_P(SharedPrefixFamilyTest, ManyAtOnceAreEachAsIfAlone) {
  EngineSetup setup = {.n_ctx = 256,
                       .n_slots = 3,
                       .n_ubatch = 64,
                       .kv_type = GetParam().kv_type};
  setup.n_idle_sessions = 4;
  setup.prefix_cache_bytes = 0;
  Load(GetParam().model, setup);
  std::mt19937 random(5);
  std::vector<GenerateOptions> requests;
  for (int i = 0; i < 40; ++i) {
    const auto n_common = static_cast<int64_t>(random() % 150);
    requests.push_back(
        Greedy(Prompt(n_common, 1 + static_cast<int64_t>(random() % 60),
                      static_cast<uint32_t>(random() % 6)),
               1 + static_cast<int64_t>(random() % 40)));
    requests.back().claim.tenant.push_back(random() % 2 == 0 ? 'a' : 'b');
    if (random() % 4 == 0) {
      requests.back().roll.policy = ContextPolicy::kRoll;
      requests.back().max_tokens = 200;
      requests.back().roll.pin_tokens = random() % 2 == 0 ? 0 : 70;
    }
  }
  const std::vector<Generated> alone = EachAlone(*engine_, requests);
  setup.prefix_cache_bytes = INT64_MAX;
  Load(GetParam().model, setup);
  ExpectAsAlone(SubmitAll(requests), alone);
  EXPECT_GT(engine_->CurrentLoad().cached_tokens, 100);
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedPrefixFamilyTest,
    ::testing::Values(ModelAndKv{"llama_f32", DType::kF32},
                      ModelAndKv{"llama_q4_1", DType::kQ8_0},
                      ModelAndKv{"gemma_q5_0", DType::kF16},
                      ModelAndKv{"gemma_k", DType::kBF16},
                      ModelAndKv{"deepseek2_q8_0", DType::kQ5_1},
                      ModelAndKv{"lfm2_q8_0", DType::kF16},
                      ModelAndKv{"qwen35_q8_0", DType::kF16},
                      ModelAndKv{"nemotron_h_q8_0", DType::kF16}),
    NameOfModelAndKv);

// A conversation that is sent anew with each turn computes its newest turn and
// what comes after the last whole page, whatever its models keep.
TEST_P(SharedPrefixFamilyTest, TheNextTurnBeginsBehindTheReply) {
  EngineSetup setup = {.n_ctx = 1'024,
                       .n_slots = 2,
                       .kv_type = GetParam().kv_type,
                       .precision = Precision::kDefault};
  setup.n_idle_sessions = 4;
  setup.n_draft = 3;
  Load(GetParam().model, setup);
  const std::unique_ptr<Engine> warm = std::move(engine_);
  setup.prefix_cache_bytes = 0;
  Load(GetParam().model, setup);
  Ids prompt = Prompt(100, 1, 1);
  for (uint32_t turn = 0; turn < 4; ++turn) {
    SCOPED_TRACE(turn);
    GenerateOptions request = Greedy(prompt, 90 + 13 * turn);
    request.draft_tokens = 3;
    const Generated cold = Generate(*engine_, request);
    const Generated got = Generate(*warm, request);
    EXPECT_TRUE(SameBits(got, cold));
    for (const TokenOutput& token : got.tokens) prompt.push_back(token.id);
    // The last token of a reply is not computed.
    const auto n_known = std::ssize(prompt) - 1;
    const Ids message = RandomIds(20, 100 + turn);
    prompt.insert(prompt.end(), message.begin(), message.end());
    if (turn == 3) break;
    GenerateOptions next = Greedy(prompt, 1);
    EXPECT_EQ(Generate(*warm, next).info.n_cached, n_known / 64 * 64);
  }
}

TEST_F(SharedPrefixTest, WithoutSnapshotsWindowLayersShareNothing) {
  Load("gemma_q5_0", {.n_ctx = 256});
  const GenerateOptions request = Greedy(Prompt(200, 1, 1), 3);
  (void)Generate(*engine_, request);
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 0);
}

// Its bytes could be another tenant's.
TEST_F(SharedPrefixTest, ASnapshotThatCouldNotBeCopiedIsNotShared) {
  bool fails = false;
  bool is_copying = false;
  const plimsoll::testing::HookedDevice device(
      {.before =
           [&] {
             return std::exchange(is_copying, false) && fails
                        ? absl::InternalError("no copy")
                        : absl::OkStatus();
           },
       .copying = [&] { is_copying = true; }});
  EngineSetup setup = {.n_ctx = 256, .device = &device};
  setup.n_idle_sessions = 2;
  Load("gemma_q5_0", setup);
  const GenerateOptions request = Greedy(Prompt(200, 1, 1), 1);
  fails = true;
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 0);
  fails = false;
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 0);
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 192);
}

// A run of one tenant pays nothing for clearing.
TEST_F(SharedPrefixTest, OnlyAnotherTenantsMemoryIsCleared) {
  int64_t n_cleared = 0;
  const plimsoll::testing::HookedDevice device(
      {.clearing = [&](kernels::BufferView) { ++n_cleared; }});
  Load("gemma_q5_0", {.n_ctx = 256, .n_slots = 2, .device = &device});
  GenerateOptions request = Greedy(Prompt(100, 50, 1), 30);
  for (uint32_t seed = 1; seed < 8; ++seed) {
    request.prompt_ids = Prompt(100, 50, seed);
    EXPECT_TRUE(Generate(*engine_, request).status.ok());
  }
  EXPECT_EQ(n_cleared, 0);
  request.claim.tenant = "two";
  EXPECT_TRUE(Generate(*engine_, request).status.ok());
  EXPECT_GT(n_cleared, 0);
}

// What one tenant sends costs as many steps and finds as little, whatever
// another one has sent. bench/tenants/prefix_timing.py measures the time.
TEST_F(SharedPrefixTest, AGuessTellsNothingOfWhatAnotherTenantSent) {
  for (const char* model : {"llama_f32", "gemma_q5_0"}) {
    SCOPED_TRACE(model);
    EngineSetup setup = {.n_ctx = 256, .n_slots = 2, .n_ubatch = 32};
    setup.n_idle_sessions = 2;
    Load(model, setup);
    const auto steps_of_guess = [&](uint32_t sent, uint32_t guessed) {
      GenerateOptions request = Greedy(RandomIds(200, sent), 2);
      request.claim.tenant = "owner";
      EXPECT_TRUE(Generate(*engine_, request).status.ok());
      const int64_t n_before = engine_->CurrentLoad().steps;
      request = Greedy(RandomIds(200, guessed), 2);
      request.claim.tenant = "guesser";
      const Generated guess = Generate(*engine_, request);
      EXPECT_TRUE(guess.status.ok()) << guess.status;
      EXPECT_EQ(guess.info.n_cached, 0);
      return engine_->CurrentLoad().steps - n_before;
    };
    const int64_t n_miss = steps_of_guess(/*sent=*/1, /*guessed=*/2);
    const int64_t n_hit = steps_of_guess(/*sent=*/3, /*guessed=*/3);
    EXPECT_EQ(n_hit, n_miss);
    EXPECT_GE(n_hit, 7) << "all of the prompt is computed";
  }
}

// Sends a prompt of 200 tokens for one tenant, then so many prompts of another
// one, then the first prompt again. Returns how much of it the engine kept.
int64_t CachedAfterFlood(Engine& engine, uint32_t n_prompts, int64_t n_tokens) {
  GenerateOptions kept = Greedy(Prompt(200, 1, 1), 1);
  kept.claim.tenant = "kept";
  (void)Generate(engine, kept);
  for (uint32_t seed = 1; seed <= n_prompts; ++seed) {
    GenerateOptions flood = Greedy(RandomIds(n_tokens, seed), 1);
    flood.claim.tenant = "flood";
    EXPECT_TRUE(Generate(engine, flood).status.ok());
  }
  return Generate(engine, kept).info.n_cached;
}

TEST_F(SharedPrefixTest, AFloodOfATenantLeavesAnotherOnesPages) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 2});
  EXPECT_EQ(CachedAfterFlood(*engine_, /*n_prompts=*/39, /*n_tokens=*/250),
            192);
}

TEST_F(SharedPrefixTest, AFloodOfATenantLeavesAnotherOnesSnapshots) {
  EngineSetup setup = {.n_ctx = 256, .n_slots = 4};
  setup.n_idle_sessions = 3;
  Load("gemma_q5_0", setup);
  EXPECT_EQ(CachedAfterFlood(*engine_, /*n_prompts=*/9, /*n_tokens=*/130), 192);
}

TEST_F(SharedPrefixTest, TenantsShareNothing) {
  Load("llama_f32", {.n_ctx = 256, .n_slots = 3});
  GenerateOptions request = Greedy(Prompt(200, 1, 1), 3);
  request.claim.tenant = "one";
  (void)Generate(*engine_, request);
  request.claim.tenant = "two";
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 0);
  request.claim.tenant = "one";
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 192);
}

TEST_F(SharedPrefixTest, ScoredTokensAreComputed) {
  Load("llama_f32", {.n_ctx = 256});
  GenerateOptions request = Greedy(Prompt(200, 1, 1), 1);
  (void)Generate(*engine_, request);
  request.prompt_logprobs = true;
  const Generated all = Generate(*engine_, request);
  EXPECT_EQ(all.info.n_cached, 0);
  ASSERT_EQ(all.prompt_logprobs.size(), 200u);
  request.first_scored = 130;
  const Generated some = Generate(*engine_, request);
  EXPECT_EQ(some.info.n_cached, 128);
  ASSERT_EQ(some.prompt_logprobs.size(), 71u);
  for (size_t i = 0; i < 71; ++i) {
    EXPECT_EQ(some.prompt_logprobs[i], all.prompt_logprobs[129 + i]) << i;
  }
}

TEST_F(SharedPrefixTest, WhatIsGeneratedIsSharedToo) {
  Load("llama_f32", {.n_ctx = 256});
  const Generated first = Generate(*engine_, Greedy(Prompt(50, 1, 1), 100));
  Ids longer = Prompt(50, 1, 1);
  for (const int32_t id : first.ids()) longer.push_back(id);
  longer.push_back(7);
  EXPECT_EQ(Generate(*engine_, Greedy(longer, 2)).info.n_cached, 128);
}

TEST_F(SharedPrefixTest, PagesGoToWhoNeedsThemTheOldestFirst) {
  Load("llama_f32", {.n_ctx = 256});  // one slot of four pages
  const GenerateOptions a = Greedy(Prompt(0, 130, 1), 1);
  const GenerateOptions b = Greedy(Prompt(0, 130, 2), 1);
  (void)Generate(*engine_, a);
  (void)Generate(*engine_, b);
  EXPECT_EQ(Generate(*engine_, b).info.n_cached, 128);
  EXPECT_EQ(Generate(*engine_, a).info.n_cached, 64)
      << "its second page was needed";
  EXPECT_TRUE(Generate(*engine_, Greedy(Prompt(0, 256, 3), 1)).status.ok());
  EXPECT_EQ(Generate(*engine_, b).info.n_cached, 0);
}

TEST_F(SharedPrefixTest, NoMoreIsKeptThanMayBe) {
  EngineSetup setup = {.n_ctx = 512};
  Load("llama_f32", setup);
  setup.prefix_cache_bytes = 0;
  for (const EnginePart& part : engine_->parts()) {
    setup.prefix_cache_bytes += 2 * part.plan.kv.page_bytes;
  }
  Load("llama_f32", setup);
  const GenerateOptions request = Greedy(Prompt(300, 1, 1), 1);
  (void)Generate(*engine_, request);
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 128);
  setup.prefix_cache_bytes -= 1;
  Load("llama_f32", setup);
  (void)Generate(*engine_, request);
  EXPECT_EQ(Generate(*engine_, request).info.n_cached, 64);
}

TEST_F(SharedPrefixTest, SessionsShareTheirSystemMessage) {
  Load("llama_f32", {.n_ctx = 512, .n_slots = 3});
  SessionOptions session;
  session.frame = {.opening = RandomIds(150, 9),
                   .after_user = {5, 6},
                   .after_reply = {7, 8}};
  std::vector<Generated> got;
  for (const char* id : {"a", "b"}) {
    session.id = id;
    ASSERT_TRUE(engine_->OpenSession(session).ok());
    GenerateOptions message = Greedy({10, 11, 12}, 5);
    message.session_id = id;
    got.push_back(Generate(*engine_, message));
    ASSERT_TRUE(got.back().status.ok()) << got.back().status;
  }
  EXPECT_EQ(got[0].info.n_cached, 0);
  EXPECT_EQ(got[1].info.n_cached, 128);
  EXPECT_TRUE(SameBits(got[0], got[1]));
}

}  // namespace
}  // namespace plimsoll::worker
