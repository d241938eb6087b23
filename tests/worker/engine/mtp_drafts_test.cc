// What an engine promises of the guesses of an MTP head: the same bits, and
// fewer steps if the head knows what comes.
#include "worker/engine/mtp_drafts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::DraftSource;
using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kEmulatedDevice;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::ModelAndKv;
using ::plimsoll::testing::NameOfModelAndKv;
using ::plimsoll::testing::OpenTestDevice;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::Sinks;
using ::plimsoll::testing::SpoiledModelBytes;
using ::testing::HasSubstr;

void SetFloats(std::vector<std::byte>& bytes, float value) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    std::memcpy(&bytes[i], &value, sizeof(float));
  }
}

// Makes each layer add nothing, and the head read the next token's embedding
// alone. Then the token after any token is the same for the model and the head.
void MakeKnowing(const std::string& tensor, std::vector<std::byte>& bytes) {
  for (const char* last : {"ssm_out", "attn_output", "ffn_down"}) {
    if (absl::StrContains(tensor, last)) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
  }
  if (absl::EndsWith(tensor, "output_norm.weight") ||
      absl::StrContains(tensor, "nextn.")) {
    SetFloats(bytes, 1);
  }
  if (!absl::EndsWith(tensor, "nextn.eh_proj.weight")) return;
  SetFloats(bytes, 0);
  const size_t dim = FindRandomModel("qwen35_mtp").dim;
  const float one = 1;
  for (size_t i = 0; i < dim; ++i) {
    std::memcpy(&bytes[i * (2 * dim + 1) * sizeof(float)], &one, sizeof(one));
  }
}

class MtpDraftsTest : public plimsoll::testing::EngineFixture {
 protected:
  static EngineSetup WithHead(EngineSetup setup) {
    setup.draft_source = DraftSource::kMtp;
    return setup;
  }
  void LoadKnowing(const EngineSetup& setup) {
    LoadBytes(SpoiledModelBytes(FindRandomModel("qwen35_mtp"), MakeKnowing),
              WithHead(setup));
  }
  // What the request gives with guesses, which is what it gives without.
  Generated Guessed(GenerateOptions request, int64_t draft_tokens) {
    request.draft_tokens = 0;
    const Generated plain = Generate(*engine_, request);
    request.draft_tokens = draft_tokens;
    Generated guessed = Generate(*engine_, request);
    EXPECT_TRUE(plain.status.ok()) << plain.status;
    EXPECT_TRUE(SameBits(plain, guessed)) << guessed.status;
    EXPECT_EQ(plain.info.reason, guessed.info.reason);
    return guessed;
  }
};

class MtpFamilyTest : public MtpDraftsTest,
                      public ::testing::WithParamInterface<ModelAndKv> {};

TEST_P(MtpFamilyTest, GuessesChangeNoBit) {
  const EngineSetup setup = {.n_ctx = 320,
                             .n_draft = 5,
                             .kv_type = GetParam().kv_type,
                             .precision = Precision::kDefault};
  GenerateOptions request = Greedy(RandomIds(100, 3), 120);
  Load(GetParam().model, setup);
  const Generated without_head = Generate(*engine_, request);
  Load(GetParam().model, WithHead(setup));
  for (const int64_t draft_tokens : {1, 2, 5}) {
    SCOPED_TRACE(draft_tokens);
    const Generated guessed = Guessed(request, draft_tokens);
    EXPECT_TRUE(SameBits(guessed, without_head));
    EXPECT_GT(guessed.info.n_drafted, 50) << "a head always has a guess";
    GenerateOptions drawn = request;
    drawn.sampling = {.temperature = 2, .seed = 5};
    drawn.prompt_logprobs = true;
    Guessed(drawn, draft_tokens);
  }
}

TEST_P(MtpFamilyTest, GuessesStopWhereAContextRolls) {
  Load(GetParam().model,
       WithHead({.n_ctx = 256, .n_draft = 5, .kv_type = GetParam().kv_type}));
  for (const RollMethod method : {RollMethod::kShift, RollMethod::kRecompute}) {
    GenerateOptions request = GreedyWithTop(RandomIds(100, 4), 500, 0);
    request.roll.policy = ContextPolicy::kRoll;
    request.roll.method = method;
    request.roll.pin_tokens = 70;
    EXPECT_GT(Guessed(request, 5).evictions.size(), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MtpFamilyTest,
    ::testing::Values(ModelAndKv{"qwen35_mtp", DType::kF16},
                      ModelAndKv{"qwen35_mtp", DType::kQ8_0},
                      ModelAndKv{"deepseek2_mtp", DType::kF16}),
    NameOfModelAndKv);

// Each step but the first one, which has the prompt, gives a token and all
// guesses.
TEST_F(MtpDraftsTest, AHeadThatKnowsIsAlwaysRight) {
  for (const int64_t n_ubatch : {7, 512}) {
    SCOPED_TRACE(n_ubatch);
    LoadKnowing({.n_ctx = 320, .n_ubatch = n_ubatch, .n_draft = 5});
    for (const int64_t draft_tokens : {1, 2, 5}) {
      SCOPED_TRACE(draft_tokens);
      // 100 tokens before the guesses, which no end of a page shortens.
      const int64_t n_tokens = 1 + 3 * (1 + draft_tokens);
      const Generated got =
          Guessed(Greedy(RandomIds(100, 5), n_tokens), draft_tokens);
      EXPECT_EQ(got.info.n_drafted, 3 * draft_tokens);
      EXPECT_EQ(got.info.n_accepted, got.info.n_drafted);
    }
  }
}

TEST_F(MtpDraftsTest, ItsGuessesEndWithAPage) {
  LoadKnowing({.n_ctx = 320, .n_draft = 5});
  const int64_t before = engine_->CurrentLoad().steps;
  // The second token is the last one of a page of 64.
  GenerateOptions request = Greedy(RandomIds(62, 5), 60);
  request.draft_tokens = 5;
  const Generated got = Generate(*engine_, request);
  EXPECT_EQ(got.info.n_accepted, got.info.n_drafted);
  EXPECT_LT(engine_->CurrentLoad().steps - before, 60 / 6 + 5);
}

TEST_F(MtpDraftsTest, StreamsBesideOthersGuessAsAlone) {
  LoadKnowing({.n_ctx = 320, .n_slots = 4, .n_ubatch = 40, .n_draft = 5});
  std::vector<GenerateOptions> requests;
  std::vector<Generated> alone;
  for (const int64_t draft_tokens : {0, 1, 3, 5, 2, 5}) {
    requests.push_back(
        Greedy(RandomIds(20 + 30 * draft_tokens, 6), 40 + 7 * draft_tokens));
    requests.back().draft_tokens = 0;
    alone.push_back(Generate(*engine_, requests.back()));
    requests.back().draft_tokens = draft_tokens;
  }
  const EngineLoad before = engine_->CurrentLoad();
  ExpectAsAlone(SubmitAll(requests), alone);
  const EngineLoad after = engine_->CurrentLoad();
  EXPECT_GT(after.draft_tokens, before.draft_tokens + 50);
  EXPECT_EQ(after.draft_tokens - before.draft_tokens,
            after.accepted_draft_tokens - before.accepted_draft_tokens);
}

TEST_F(MtpDraftsTest, ASessionGoesOnAfterGuesses) {
  LoadKnowing({.n_ctx = 320, .n_slots = 3, .n_draft = 5});
  SessionOptions session;
  session.frame = {.opening = {2, 5}, .after_user = {6}, .after_reply = {7, 8}};
  std::vector<Generated> replies[2];
  for (const int64_t draft_tokens : {0, 5}) {
    session.id = absl::StrCat("s", draft_tokens);
    ASSERT_TRUE(engine_->OpenSession(session).ok());
    for (uint32_t turn = 0; turn < 8; ++turn) {
      GenerateOptions message = Greedy(RandomIds(33, turn), 40);
      message.session_id = session.id;
      message.draft_tokens = draft_tokens;
      replies[draft_tokens / 5].push_back(Generate(*engine_, message));
    }
  }
  for (size_t turn = 0; turn < 8; ++turn) {
    EXPECT_TRUE(SameBits(replies[0][turn], replies[1][turn])) << turn;
    EXPECT_GT(replies[1][turn].info.n_accepted, 20) << turn;
  }
}

TEST_F(MtpDraftsTest, SharedPagesHaveTheHeadsKeys) {
  LoadKnowing({.n_ctx = 320, .n_idle_sessions = 3, .n_draft = 5});
  GenerateOptions request = Greedy(RandomIds(200, 7), 60);
  request.draft_tokens = 5;
  const Generated first = Generate(*engine_, request);
  const Generated second = Generate(*engine_, request);
  EXPECT_TRUE(SameBits(first, second));
  EXPECT_GT(second.info.n_cached, 100);
  EXPECT_EQ(second.info.n_accepted, second.info.n_drafted);
}

// Its keys cannot be computed again, so a copy of them waits with the head's.
TEST_F(MtpDraftsTest, AParkedContextGoesOnWithTheHeadsKeys) {
  LoadKnowing({.n_ctx = 256, .n_parked = 1, .n_draft = 2});
  GenerateOptions rolls = GreedyWithTop(RandomIds(60, 1), 1'400, 3);
  rolls.roll.policy = ContextPolicy::kRoll;
  rolls.claim.tenant = "rolls";
  rolls.draft_tokens = 0;
  const Generated alone = Generate(*engine_, rolls);
  rolls.draft_tokens = 2;
  const auto stream = std::make_shared<CollectSink>();
  const auto other = std::make_shared<CollectSink>();
  bool has_other = false;
  stream->after_output = [&](int64_t n_tokens) {
    if (n_tokens < 400 || has_other) return;
    has_other = true;
    EXPECT_TRUE(engine_->Submit(Greedy(RandomIds(90, 7), 20), other).ok());
  };
  ASSERT_TRUE(engine_->Submit(rolls, stream).ok());
  const Generated got = stream->Await();
  EXPECT_TRUE(SameBits(got, alone));
  EXPECT_GT(got.info.n_accepted, 700);
  EXPECT_EQ(got.info.n_accepted, got.info.n_drafted);
  ASSERT_TRUE(has_other);
  EXPECT_TRUE(other->Await().status.ok());
  EXPECT_GE(engine_->CurrentLoad().preemptions, 1);
}

TEST_F(MtpDraftsTest, ADeviceGuessesAsTheCpuDoes) {
  const auto device = OpenTestDevice(kEmulatedDevice, Precision::kDefault);
  if (!device.ok()) GTEST_SKIP() << device.status();
  LoadKnowing({.n_ctx = 128, .n_draft = 3, .device = device->get()});
  GenerateOptions request = Greedy(RandomIds(20, 9), 17);
  const Generated got = Guessed(request, 3);
  EXPECT_EQ(got.info.n_drafted, 12);
  EXPECT_EQ(got.info.n_accepted, 12);
}

TEST_F(MtpDraftsTest, ALoadTakesWhatItsPlanSays) {
  Load("qwen35_mtp", WithHead({.n_ctx = 320, .n_slots = 2, .n_draft = 5}));
  const MemoryReport memory = engine_->Memory();
  EXPECT_EQ(memory.planned_bytes, memory.allocated_bytes);
  EXPECT_NE(engine_->plan().FindRegion("mtp"), nullptr);
  EXPECT_GT(engine_->plan().FindRegion("kv_mtp")->bytes, 0);
  Generate(*engine_, Greedy(RandomIds(100, 9), 20));
  EXPECT_EQ(engine_->Memory().device_allocations_after_load, 0);
}

TEST_F(MtpDraftsTest, IsRefusedWhereThereIsNoHead) {
  const auto error = [](const char* model, EngineSetup setup) {
    const plimsoll::testing::TemporaryFile file(
        RandomModelBytes(FindRandomModel(model)));
    return std::string(
        LoadEngine(file.path(), WithHead(std::move(setup))).status().message());
  };
  EXPECT_THAT(error("qwen35_q8_0", {.n_draft = 3}),
              HasSubstr("this model has no MTP head: there is no tensor "
                        "\"blk.3.nextn.eh_proj.weight\""));
  EXPECT_THAT(error("qwen35_mtp", {.n_draft = 0}),
              HasSubstr("draft_source is mtp and n_draft is 0"));
}

}  // namespace
}  // namespace plimsoll::worker
