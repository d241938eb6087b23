// What the engine promises to many streams at once: limits, ends, fairness.
#include "worker/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sanitized.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::GreedyWithTop;
using ::plimsoll::testing::kPrompt;
using ::plimsoll::testing::kRandomContext;
using ::plimsoll::testing::kRandomVocab;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::ResidentBytes;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::plimsoll::testing::WideModel;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class EngineTest : public plimsoll::testing::EngineFixture {
 protected:
  void Load(const EngineSetup& setup) {
    EngineFixture::Load("llama_half", setup);
  }
  // With some of its tensors' bytes changed.
  void LoadSpoiled(const EngineSetup& setup, const testing::Spoil& spoil) {
    LoadBytes(SpoiledModelBytes(FindRandomModel("llama_half"), spoil), setup);
  }

  // A sequence that holds its slot, its reader being behind after a token.
  std::shared_ptr<CollectSink> SubmitStuck() {
    auto sink = std::make_shared<CollectSink>(/*limit=*/1);
    EXPECT_TRUE(engine_->Submit(Greedy(kPrompt, 20), sink).ok());
    sink->AwaitRefusal();
    return sink;
  }

  absl::Status Submit(const GenerateOptions& options) {
    auto sink = std::make_shared<CollectSink>();
    const absl::Status status = engine_->Submit(options, sink);
    if (status.ok()) sink->Await();
    return status;
  }

  void Release(CollectSink& sink) {
    sink.Accept();
    engine_->Wake();
  }
};

TEST_F(EngineTest, AllocatesExactlyThePlanAndNothingAfterwards) {
  Load({.n_slots = 3});
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(
        engine_->Submit(GreedyWithTop(kPrompt, 30, 64), sinks.back()).ok());
  }
  for (auto& sink : sinks) EXPECT_TRUE(sink->Await().status.ok());
  const MemoryReport memory = engine_->Memory();
  EXPECT_EQ(memory.planned_bytes, memory.allocated_bytes);
  EXPECT_GE(memory.planned_bytes, engine_->plan().arena_bytes);
  EXPECT_EQ(memory.device_allocations_after_load, 0);
  EXPECT_GT(memory.vocab_bytes, 0);
  EXPECT_GT(memory.peak_rss_bytes, engine_->plan().arena_bytes);
}

TEST_F(EngineTest, TheReportAddsUp) {
  Load({});
  const Generated got = Generate(*engine_, Greedy(kPrompt, 7));
  ASSERT_TRUE(got.status.ok());
  EXPECT_EQ(got.info.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(got.info.n_prompt, 5);
  EXPECT_EQ(got.info.n_generated, 7);
  EXPECT_EQ(got.tokens.size(), 7u);
  EXPECT_GE(got.info.first_token, got.info.prefill);
  const EngineLoad load = engine_->CurrentLoad();
  EXPECT_EQ(load.running, 0);
  EXPECT_EQ(load.waiting, 0);
  EXPECT_EQ(load.n_slots, 1);
  EXPECT_TRUE(engine_->Idle());
}

TEST_F(EngineTest, TheChosenTokensLogProbabilityIsThatOfTheRawDistribution) {
  Load({});
  GenerateOptions options = GreedyWithTop(kPrompt, 20, 64);
  options.sampling = {.temperature = 2.0f, .top_k = 30, .seed = 3};
  const Generated got = Generate(*engine_, options);
  ASSERT_TRUE(got.status.ok());
  bool is_ever_not_first = false;
  for (const TokenOutput& token : got.tokens) {
    ASSERT_TRUE(token.has_logprob);
    ASSERT_EQ(token.candidates.size(), 64u);
    const auto it =
        std::find_if(token.candidates.begin(), token.candidates.end(),
                     [&](const Candidate& c) { return c.id == token.id; });
    ASSERT_NE(it, token.candidates.end()) << "top_k cut what was drawn";
    EXPECT_LT(it - token.candidates.begin(), 30);
    EXPECT_EQ(it->logprob, token.logprob);
    EXPECT_EQ(it - token.candidates.begin(), token.rank);
    is_ever_not_first |= it != token.candidates.begin();
  }
  EXPECT_TRUE(is_ever_not_first);
}

TEST_F(EngineTest, BiasesDecideAndCandidatesStayRaw) {
  Load({});
  const Generated plain = Generate(*engine_, Greedy(kPrompt, 8));
  GenerateOptions options = Greedy(kPrompt, 8);
  options.logit_bias.biases = {{77, LogitBiasOptions::kMaxBias}};
  const Generated forced = Generate(*engine_, options);
  EXPECT_EQ(forced.ids(), std::vector<int32_t>(8, 77));
  // Before the first draw both streams are the same.
  ASSERT_EQ(forced.tokens[0].candidates.size(),
            plain.tokens[0].candidates.size());
  for (size_t i = 0; i < plain.tokens[0].candidates.size(); ++i) {
    EXPECT_EQ(forced.tokens[0].candidates[i].id,
              plain.tokens[0].candidates[i].id);
    EXPECT_EQ(forced.tokens[0].candidates[i].logprob,
              plain.tokens[0].candidates[i].logprob);
  }
  const int32_t first = plain.ids()[0];
  options.logit_bias.biases = {{first, -LogitBiasOptions::kMaxBias}};
  const Generated banned = Generate(*engine_, options);
  EXPECT_EQ(banned.ids()[0], plain.tokens[0].candidates[1].id);
  for (const int32_t id : banned.ids()) EXPECT_NE(id, first);
}

TEST_F(EngineTest, TokensThatTheFileSuppressesAreNeverDrawn) {
  Load({});
  const Generated plain = Generate(*engine_, Greedy(kPrompt, 8));
  testing::RandomModel model = FindRandomModel("llama_half");
  model.suppressed_tokens = {plain.ids()[0], plain.ids()[1]};
  LoadBytes(RandomModelBytes(model), {});
  GenerateOptions options = Greedy(kPrompt, 8);
  options.logit_bias.biases = {
      {model.suppressed_tokens[1], LogitBiasOptions::kMaxBias}};
  for (const int32_t top_k : {1, 40, 0}) {  // in candidates and in rows
    options.sampling.temperature = top_k == 1 ? 0.0f : 1.0f;
    options.sampling.top_k = top_k;
    const Generated got = Generate(*engine_, options);
    ASSERT_TRUE(got.status.ok()) << got.status;
    ASSERT_EQ(got.tokens.size(), 8u);
    for (const int32_t id : got.ids()) {
      EXPECT_THAT(model.suppressed_tokens,
                  ::testing::Not(::testing::Contains(id)));
    }
    // Log-probabilities are those of the model, before any bias.
    EXPECT_EQ(got.tokens[0].candidates[0].id, plain.ids()[0]);
  }
}

TEST_F(EngineTest, APenaltyThatNeverForgetsNeverRepeats) {
  Load({});
  GenerateOptions options = Greedy(kPrompt, 60);
  options.logit_bias.presence_penalty = LogitBiasOptions::kMaxPenalty;
  options.logit_bias.penalty_last_tokens = 100;
  for (const int32_t top_k : {1, 40, 65, 0}) {  // in candidates and in rows
    options.sampling.temperature = top_k == 1 ? 0.0f : 1.0f;
    options.sampling.top_k = top_k;
    const Generated got = Generate(*engine_, options);
    ASSERT_TRUE(got.status.ok()) << got.status;
    std::vector<int32_t> all = kPrompt;
    for (const int32_t id : got.ids()) all.push_back(id);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << top_k;
  }
}

TEST_F(EngineTest, BiasesOfOneStreamDoNotTouchItsNeighbours) {
  Load({.n_slots = 3});
  GenerateOptions plain = Greedy(kPrompt, 20);
  plain.sampling = {.temperature = 1.0f, .top_k = 40, .seed = 5};
  GenerateOptions biased = plain;
  biased.logit_bias.repetition_penalty = 1.5f;
  biased.logit_bias.biases = {{12, 3.0f}};
  const Generated alone = Generate(*engine_, plain);
  const Generated biased_alone = Generate(*engine_, biased);
  EXPECT_NE(alone.ids(), biased_alone.ids());
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (const GenerateOptions* options : {&biased, &plain, &biased}) {
    sinks.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(engine_->Submit(*options, sinks.back()).ok());
  }
  EXPECT_TRUE(SameBits(sinks[0]->Await(), biased_alone));
  EXPECT_TRUE(SameBits(sinks[1]->Await(), alone));
  EXPECT_TRUE(SameBits(sinks[2]->Await(), biased_alone));
}

TEST_F(EngineTest, LogProbabilitiesComeOnlyWhereAsked) {
  Load({});
  const Generated none = Generate(*engine_, GreedyWithTop(kPrompt, 2, -1));
  EXPECT_FALSE(none.tokens[0].has_logprob);
  EXPECT_TRUE(none.tokens[0].candidates.empty());
  const Generated chosen = Generate(*engine_, GreedyWithTop(kPrompt, 2, 0));
  EXPECT_TRUE(chosen.tokens[0].has_logprob);
  EXPECT_TRUE(chosen.tokens[0].candidates.empty());
  const Generated three = Generate(*engine_, GreedyWithTop(kPrompt, 2, 3));
  EXPECT_EQ(three.tokens[0].candidates.size(), 3u);
  EXPECT_EQ(three.tokens[0].logprob, chosen.tokens[0].logprob);
}

TEST_F(EngineTest, RefusesAPromptLongerThanTheContextWithBothNumbers) {
  Load({.n_ctx = 48});
  const absl::Status status = Submit(Greedy(std::vector<int32_t>(49, 7), 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Message(status), HasSubstr("49"));
  EXPECT_THAT(Message(status), HasSubstr("48"));
}

TEST_F(EngineTest, TakesAPromptThatFillsTheContext) {
  Load({.n_ctx = 48});
  const Generated got =
      Generate(*engine_, Greedy(std::vector<int32_t>(48, 7), 0));
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.info.reason, FinishReason::kLength);
  EXPECT_EQ(got.info.n_generated, 1);
}

TEST_F(EngineTest, AFullContextIsAnErrorWhereThatWasAskedFor) {
  Load({.n_ctx = 48});
  GenerateOptions options = Greedy(kPrompt, 0);
  options.roll.policy = ContextPolicy::kError;
  const Generated got = Generate(*engine_, options);
  EXPECT_EQ(got.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Message(got.status), HasSubstr("48"));
  EXPECT_EQ(got.tokens.size(), 44u) << "what was generated was delivered";
}

TEST_F(EngineTest, StopsAtAStopTokenAndDeliversIt) {
  Load({});
  const Generated free = Generate(*engine_, Greedy(kPrompt, 12));
  GenerateOptions options = Greedy(kPrompt, 12);
  options.stop_tokens = {free.tokens[3].id};
  const Generated got = Generate(*engine_, options);
  EXPECT_EQ(got.info.reason, FinishReason::kStopToken);
  const auto ids = free.ids();
  const auto first = std::find(ids.begin(), ids.end(), ids[3]);
  EXPECT_EQ(got.info.n_generated, first - ids.begin() + 1);
  EXPECT_EQ(got.tokens.back().id, ids[3]);
}

TEST_F(EngineTest, StopsBeforeAStopString) {
  // Tokens of letters only, so that the text is known.
  EngineFixture::Load("gemma_q5_0", {});
  GenerateOptions options = Greedy(kPrompt, 60);
  options.sampling = {.temperature = 3.0f, .top_k = 0, .top_p = 1, .min_p = 0};
  options.sampling.seed = 4;
  const Generated free = Generate(*engine_, options);
  const size_t at = free.text.find_first_of("abcdefghijklmnopqrstuvwxyz", 10);
  ASSERT_NE(at, std::string::npos);
  options.stop_strings = {free.text.substr(at, 1)};
  const Generated got = Generate(*engine_, options);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.info.reason, FinishReason::kStopString);
  EXPECT_EQ(got.info.stop_string, options.stop_strings[0]);
  EXPECT_EQ(got.text,
            free.text.substr(0, free.text.find(got.info.stop_string)));
  EXPECT_LT(got.info.n_generated, 60);
}

TEST_F(EngineTest, AnEndTokenEndsUnlessIgnored) {
  Load({});
  const int32_t likeliest = Generate(*engine_, Greedy(kPrompt, 1)).ids()[0];
  // The end token, 2, gets the same logits: of equals the lowest id is taken.
  LoadSpoiled({}, [=](const std::string& name, auto& bytes) {
    if (name != "output.weight") return;
    const size_t row = bytes.size() / kRandomVocab;
    std::memcpy(bytes.data() + 2 * row,
                bytes.data() + static_cast<size_t>(likeliest) * row, row);
  });
  GenerateOptions options = Greedy(kPrompt, 6);
  options.ignore_eos = false;
  const Generated ended = Generate(*engine_, options);
  EXPECT_EQ(ended.info.reason, FinishReason::kEndToken);
  EXPECT_EQ(ended.info.n_generated, 1);
  EXPECT_EQ(ended.tokens.back().id, 2);
  EXPECT_EQ(ended.text, "");
  options.ignore_eos = true;
  const Generated ignored = Generate(*engine_, options);
  EXPECT_EQ(ignored.info.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(ignored.info.n_generated, 6);
  EXPECT_EQ(ignored.tokens.front().id, 2);
}

struct RequestLimit {
  const char* field;
  std::function<void(GenerateOptions&)> change;
  bool is_valid;
};

TEST_F(EngineTest, RequestsAreCheckedAtTheirLimits) {
  Load({});
  using Options = GenerateOptions;
  const auto stops = [](size_t n, size_t bytes) {
    return
        [=](Options& o) { o.stop_strings.assign(n, std::string(bytes, 'x')); };
  };
  const auto stop_tokens = [](size_t n) {
    return [=](Options& o) { o.stop_tokens.assign(n, 3); };
  };
  const auto top = [](int n) {
    return [=](Options& o) { o.top_logprobs = n; };
  };
  const auto id = [](int32_t value) {
    return [=](Options& o) { o.prompt_ids[1] = value; };
  };
  const std::vector<RequestLimit> limits = {
      {"stop_strings", stops(16, 1), true},
      {"stop_strings", stops(17, 1), false},
      {"stop_strings", stops(1, 256), true},
      {"stop_strings", stops(1, 257), false},
      {"stop_strings", stops(1, 0), false},
      {"stop_tokens", stop_tokens(64), true},
      {"stop_tokens", stop_tokens(65), false},
      {"top_logprobs", top(64), true},
      {"top_logprobs", top(65), false},
      {"top_logprobs", top(-1), true},
      {"top_logprobs", top(-2), false},
      {"max_tokens", [](Options& o) { o.max_tokens = -1; }, false},
      {"prompt", [](Options& o) { o.prompt_ids.clear(); }, false},
      {"prompt_ids", id(0), true},
      {"prompt_ids", id(-1), false},
      {"prompt_ids", id(kRandomVocab - 1), true},
      {"prompt_ids", id(kRandomVocab), false},
      {"top_p", [](Options& o) { o.sampling.top_p = 2; }, false},
  };
  for (const RequestLimit& limit : limits) {
    GenerateOptions options = Greedy(kPrompt, 1);
    limit.change(options);
    const absl::Status status = Submit(options);
    EXPECT_EQ(status.ok(), limit.is_valid) << limit.field << ": " << status;
    if (limit.is_valid) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr(limit.field));
  }
}

TEST_F(EngineTest, AClientThatIsGoneFreesItsSlotWithinTwoSteps) {
  Load({});
  auto gone = std::make_shared<CollectSink>();
  std::atomic<int64_t> tokens_after{0};
  gone->after_output = [&](int64_t n_tokens) {
    if (n_tokens == 3) gone->Abandon();
    if (n_tokens > 3) ++tokens_after;
  };
  auto next = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 0), gone).ok());
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 3), next).ok());
  const Generated got = gone->Await();
  EXPECT_EQ(got.status.code(), absl::StatusCode::kCancelled);
  EXPECT_LE(tokens_after, 2);
  EXPECT_TRUE(next->Await().status.ok()) << "its slot went to the next";
}

TEST_F(EngineTest, AClientThatIsGoneWhileItWaitsLeavesTheQueue) {
  Load({.max_queued = 1});
  auto stuck = SubmitStuck();
  auto waiting = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 3), waiting).ok());
  waiting->Abandon();
  engine_->Wake();
  const Generated got = waiting->Await();
  EXPECT_EQ(got.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(got.info.n_generated, 0);
  Release(*stuck);
  EXPECT_TRUE(stuck->Await().status.ok());
}

TEST_F(EngineTest, ASlowReaderParksOnlyItsOwnSequence) {
  Load({.n_slots = 2});
  const Generated alone = Generate(*engine_, Greedy(kPrompt, 20));
  auto stuck = SubmitStuck();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(SameBits(Generate(*engine_, Greedy(kPrompt, 20)), alone));
  }
  const EngineLoad load = engine_->CurrentLoad();
  EXPECT_EQ(load.running, 1) << "it keeps its slot";
  Release(*stuck);
  EXPECT_TRUE(SameBits(stuck->Await(), alone)) << "and loses nothing";
}

TEST_F(EngineTest, AParkedEndIsDeliveredWithItsLastOutput) {
  Load({});
  auto sink = std::make_shared<CollectSink>(/*limit=*/4);
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 5), sink).ok());
  sink->AwaitRefusal();  // the fifth token, which is the last
  EXPECT_FALSE(engine_->Idle());
  Release(*sink);
  const Generated got = sink->Await();
  EXPECT_TRUE(got.status.ok());
  EXPECT_EQ(got.tokens.size(), 5u);
}

TEST_F(EngineTest, TheDeadlineEndsARunningAndAWaitingStream) {
  std::atomic<int64_t> seconds{100};
  EngineSetup setup;
  setup.clock = [&] { return absl::FromUnixSeconds(seconds); };
  Load(setup);
  auto running = std::make_shared<CollectSink>();
  running->after_output = [&](int64_t n_tokens) {
    if (n_tokens == 3) seconds = 201;
  };
  auto waiting = std::make_shared<CollectSink>();
  GenerateOptions options = Greedy(kPrompt, 0);
  options.deadline = absl::FromUnixSeconds(200);
  ASSERT_TRUE(engine_->Submit(options, running).ok());
  ASSERT_TRUE(engine_->Submit(options, waiting).ok());
  const Generated got = running->Await();
  EXPECT_EQ(got.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LE(got.tokens.size(), 5u);
  const Generated other = waiting->Await();
  EXPECT_EQ(other.status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(EngineTest, TheQueueTakesItsLimitAndRefusesOneMore) {
  Load({.max_queued = 2});
  auto stuck = SubmitStuck();
  std::vector<std::shared_ptr<CollectSink>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(std::make_shared<CollectSink>());
    ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 2), waiting.back()).ok());
  }
  EXPECT_EQ(engine_->CurrentLoad().waiting, 2);
  auto refused = std::make_shared<CollectSink>();
  const absl::Status status = engine_->Submit(Greedy(kPrompt, 2), refused);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  Release(*stuck);
  for (auto& sink : waiting) EXPECT_TRUE(sink->Await().status.ok());
}

TEST_F(EngineTest, DrainingRefusesNewStreamsAndEndsTheOldOnesWell) {
  Load({});
  auto stuck = SubmitStuck();
  engine_->Drain();
  EXPECT_EQ(Submit(Greedy(kPrompt, 1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine_->Idle());
  Release(*stuck);
  EXPECT_TRUE(stuck->Await().status.ok());
  EXPECT_TRUE(engine_->Idle());
}

TEST_F(EngineTest, AbortEndsEveryStreamWithItsStatus) {
  Load({});
  auto stuck = SubmitStuck();
  auto waiting = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 2), waiting).ok());
  engine_->AbortAll(absl::UnavailableError("the lease is lost"));
  for (auto& sink : {stuck, waiting}) {
    const Generated got = sink->Await();
    EXPECT_EQ(got.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(got.status), HasSubstr("lease"));
  }
  EXPECT_TRUE(Generate(*engine_, Greedy(kPrompt, 2)).status.ok())
      << "later streams are not affected";
}

TEST_F(EngineTest, UnloadingEndsEveryStream) {
  Load({});
  auto stuck = SubmitStuck();
  auto waiting = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 2), waiting).ok());
  engine_.reset();
  EXPECT_EQ(stuck->Await().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(waiting->Await().status.code(), absl::StatusCode::kUnavailable);
}

// Makes row `id` of `tensor`, an f16 matrix of the vocabulary, NaN.
testing::Spoil NanRow(const std::string& tensor, size_t id) {
  return [=](const std::string& name, std::vector<std::byte>& bytes) {
    if (name != tensor) return;
    const size_t row = bytes.size() / kRandomVocab;
    std::memset(bytes.data() + id * row, 0xff, row);
  };
}

TEST_F(EngineTest, F24DamagedWeightsAreAnErrorAndNoText) {
  LoadSpoiled({}, NanRow("output.weight", 5));
  for (const float temperature : {0.0f, 1.0f}) {
    GenerateOptions options = Greedy(kPrompt, 5);
    options.sampling.temperature = temperature;
    const Generated got = Generate(*engine_, options);
    EXPECT_EQ(got.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(Message(got.status), HasSubstr("non-finite"));
    EXPECT_TRUE(got.tokens.empty());
  }
}

TEST_F(EngineTest, ADamagedStreamDoesNotHarmItsNeighbours) {
  LoadSpoiled({.n_slots = 2}, NanRow("token_embd.weight", 77));
  const Generated alone = Generate(*engine_, Greedy(kPrompt, 10));
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  auto damaged = std::make_shared<CollectSink>();
  auto sound = std::make_shared<CollectSink>();
  sound->after_output = [&](int64_t n_tokens) {
    if (n_tokens != 2) return;
    EXPECT_TRUE(engine_->Submit(Greedy({10, 77, 20}, 10), damaged).ok());
  };
  ASSERT_TRUE(engine_->Submit(Greedy(kPrompt, 10), sound).ok());
  EXPECT_TRUE(SameBits(sound->Await(), alone));
  EXPECT_EQ(damaged->Await().status.code(), absl::StatusCode::kInternal);
  // The slot that held NaN serves the next as if nothing had been.
  EXPECT_TRUE(SameBits(Generate(*engine_, Greedy(kPrompt, 10)), alone));
}

TEST_F(EngineTest, AFenceStopsTheLoad) {
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_half")));
  EngineSetup setup;
  int64_t n_refused = 0;
  setup.fence = [&](const LoadProgress& progress) {
    if (progress.phase != "weights") return absl::OkStatus();
    ++n_refused;
    return absl::CancelledError("the lease is lost");
  };
  const auto engine = LoadEngine(file.path(), setup);
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(n_refused, 1);
}

TEST_F(EngineTest, AFenceStopsTheZeroingBeforeTheNextChunk) {
  constexpr int64_t kChunks = 2;  // chunks that are touched
  const TemporaryFile file(RandomModelBytes(WideModel()));
  // Keys and values of some chunks.
  EngineSetup setup = {.n_ctx = kRandomContext, .n_slots = 40};
  const int64_t before = ResidentBytes();
  int64_t grown = 0;
  int64_t total = 0;
  setup.fence = [&](const LoadProgress& progress) {
    EXPECT_EQ(progress.phase, "allocate");
    total = progress.bytes_total;
    if (progress.bytes_done < kChunks * kernels::kMaxChunkBytes) {
      return absl::OkStatus();
    }
    EXPECT_EQ(progress.bytes_done, kChunks * kernels::kMaxChunkBytes);
    grown = ResidentBytes() - before;
    return absl::CancelledError("the lease is lost");
  };
  const auto engine = LoadEngine(file.path(), setup);
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kCancelled);
  EXPECT_GE(total, (kChunks + 2) * kernels::kMaxChunkBytes);
  // ThreadSanitizer keeps several bytes for each that is touched.
  if (plimsoll::testing::kSeesThreads) return;
  // What the process itself takes is less than a chunk.
  EXPECT_LT(grown, (kChunks + 1) * kernels::kMaxChunkBytes);
  EXPECT_LT(ResidentBytes() - before, kernels::kMaxChunkBytes);
}

TEST_F(EngineTest, ProgressGrowsToItsTotal) {
  EngineSetup setup;
  int64_t done = 0;
  std::vector<std::string> phases;
  setup.fence = [&](const LoadProgress& progress) {
    if (phases.empty() || phases.back() != progress.phase) {
      phases.emplace_back(progress.phase);
      done = 0;
    }
    EXPECT_GE(progress.bytes_done, done);
    EXPECT_LE(progress.bytes_done, progress.bytes_total);
    done = progress.bytes_done;
    return absl::OkStatus();
  };
  Load(setup);
  EXPECT_THAT(phases, ::testing::ElementsAre("allocate", "weights", "ready"));
}

}  // namespace
}  // namespace plimsoll::worker
