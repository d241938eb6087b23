// Nothing is allocated in a step: every operator new of the process is counted,
// which is why this is an executable of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/gbnf.h"

namespace {

std::atomic<int64_t> n_allocations = 0;

void* Allocate(size_t bytes, size_t alignment) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  // aligned_alloc wants whole multiples.
  const size_t padded = (bytes + alignment - 1) / alignment * alignment;
  void* memory =
      std::aligned_alloc(alignment, padded == 0 ? alignment : padded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

// All forms, as a sanitizer has its own of each.
void* operator new(size_t bytes) {
  return Allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::HookedDevice;
using ::plimsoll::testing::kPrompt;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;

constexpr int64_t kSlots = 3;
// Steps that make room for what later ones reuse, and those that are counted:
// of more than a page.
constexpr int64_t kWarmUp = 20;
constexpr int64_t kCounted = 150;

// Reads the counter at two of its tokens, or scores of its prompt's, and keeps
// none of them. Takes nothing before all have computed their prompts.
class CountingSink : public TokenSink {
 public:
  explicit CountingSink(const std::atomic<bool>& is_open) : is_open_(is_open) {}

  // Called on the step thread before the first of them and after the last one
  // that counts. Set before Submit.
  std::function<void()> at_first = [] {};
  std::function<void()> at_last = [] {};

  bool OnOutput(StepOutput& output) override {
    if (!is_open_) {
      if (!offered_.HasBeenNotified()) offered_.Notify();
      return false;
    }
    if (n_seen_ == 0) at_first();
    n_seen_ += std::ssize(output.tokens) + std::ssize(output.prompt_scores);
    const int64_t now = n_allocations.load();
    if (before_ == 0 && n_seen_ >= kWarmUp) before_ = now;
    if (after_ == 0 && n_seen_ >= kWarmUp + kCounted) {
      after_ = now;
      at_last();
    }
    return true;
  }
  void OnEnd(const absl::Status& status, const FinishInfo& info) override {
    status_ = status;
    info_ = info;
    ended_.Notify();
  }
  bool Abandoned() const override { return false; }

  // Waits for the first token.
  void AwaitOffer() { offered_.WaitForNotification(); }
  // Once it has ended.
  const FinishInfo& info() const { return info_; }

  // Waits for the end, and returns what was allocated between the two.
  int64_t Await() {
    ended_.WaitForNotification();
    EXPECT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(n_seen_, 2 * kWarmUp + kCounted);
    EXPECT_GT(before_, 0) << "the load was counted";
    EXPECT_GT(after_, 0);
    return after_ - before_;
  }

 private:
  const std::atomic<bool>& is_open_;
  int64_t n_seen_ = 0;
  FinishInfo info_;
  int64_t before_ = 0;
  int64_t after_ = 0;
  absl::Status status_;
  absl::Notification offered_;
  absl::Notification ended_;
};

class StepAllocationsTest : public ::testing::TestWithParam<const char*> {
 protected:
  // While sequences decode side by side.
  int64_t Count(const GenerateOptions& options) {
    return CountWith({}, options);
  }
  int64_t CountWith(EngineSetup setup, const GenerateOptions& options) {
    const TemporaryFile file(RandomModelBytes(FindRandomModel(GetParam())));
    setup.n_slots = kSlots;
    auto engine = LoadEngine(file.path(), setup);
    EXPECT_TRUE(engine.ok()) << engine.status();
    if (!engine.ok()) return -1;
    before_(**engine);
    std::atomic<bool> is_open = false;
    std::vector<std::shared_ptr<CountingSink>> sinks;
    for (int64_t i = 0; i < kSlots; ++i) {
      sinks.push_back(std::make_shared<CountingSink>(is_open));
      const absl::Status status = (*engine)->Submit(options, sinks.back());
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return -1;
    }
    for (const auto& sink : sinks) sink->AwaitOffer();
    is_open = true;
    (*engine)->Wake();
    const int64_t counted = sinks.front()->Await();
    for (size_t i = 1; i < sinks.size(); ++i) sinks[i]->Await();
    info_ = sinks.front()->info();
    return counted;
  }

  FinishInfo info_;  // the first one's end
  // What the engine computes before.
  std::function<void(Engine&)> before_ = [](Engine&) {};

  // Layers with embeddings of their own stay together.
  static bool HasParts() { return FindRandomModel(GetParam()).ple_dim == 0; }

  static GenerateOptions Request(const SamplingOptions& sampling) {
    GenerateOptions options;
    options.prompt_ids = kPrompt;
    options.max_tokens = 2 * kWarmUp + kCounted;
    options.sampling = sampling;
    options.ignore_eos = true;
    return options;
  }

  // A prompt with a score for every token but the first; then one token
  // follows. That makes as many outputs as max_tokens.
  static GenerateOptions ScoredPrompt() {
    GenerateOptions options = Request({.temperature = 0});
    options.prompt_ids = RandomIds(options.max_tokens, 3);
    options.max_tokens = 1;
    options.prompt_logprobs = true;
    return options;
  }
};

TEST_P(StepAllocationsTest, GreedyDecodingAllocatesNothing) {
  EXPECT_EQ(Count(Request({.temperature = 0})), 0);
}

TEST_P(StepAllocationsTest, AModelInPartsAllocatesNothing) {
  if (!HasParts()) GTEST_SKIP();
  EXPECT_EQ(CountWith({.cuts = {1}}, Request({.temperature = 0})), 0);
}

// Decoding, and prompts that pass the parts in pieces.
TEST_P(StepAllocationsTest, PartsOnThreadsOfTheirOwnAllocateNothing) {
  if (!HasParts()) GTEST_SKIP();
  const HookedDevice first({});
  const HookedDevice second({});
  EngineSetup setup;
  setup.n_ubatch = 4;
  setup.devices = {&first, &second};
  setup.cuts = {1};
  setup.piece_rows = 2;
  EXPECT_EQ(CountWith(setup, Request({.temperature = 0})), 0);
  EXPECT_EQ(CountWith(setup, ScoredPrompt()), 0);
}

TEST_P(StepAllocationsTest, TheDefaultSamplingAllocatesNothing) {
  EXPECT_EQ(Count(Request({})), 0);
}

TEST_P(StepAllocationsTest, ASmallerTopKAllocatesNothing) {
  EXPECT_EQ(Count(Request({.top_k = 10})), 0);
}

TEST_P(StepAllocationsTest, DrawsByMassAllocateNothing) {
  EXPECT_EQ(Count(Request({.top_k = 0, .top_p = 0.3f})), 0);
  EXPECT_EQ(Count(Request({.top_k = 0, .top_p = 0.95f, .min_p = 0})), 0);
  EXPECT_EQ(Count(Request({.top_k = 0, .top_p = 1, .min_p = 0.05f})), 0);
  EXPECT_EQ(Count(Request({.top_k = 0, .top_p = 1, .min_p = 0})), 0);
}

TEST_P(StepAllocationsTest, TypicalDrawsAllocateNothing) {
  EXPECT_EQ(Count(Request({.typical_p = 0.5f})), 0);
  EXPECT_EQ(Count(Request({.top_k = 0, .typical_p = 0.5f})), 0);
}

TEST_P(StepAllocationsTest, CandidatesAllocateNothing) {
  for (const int top_logprobs : {0, 5, 20}) {
    GenerateOptions request = Request({});
    request.top_logprobs = top_logprobs;
    EXPECT_EQ(Count(request), 0);
  }
}

TEST_P(StepAllocationsTest, PenaltiesAndBiasesAllocateNothing) {
  GenerateOptions request = Request({});
  request.logit_bias = {.repetition_penalty = 1.2f,
                        .presence_penalty = 0.1f,
                        .frequency_penalty = 0.1f,
                        .biases = {{40, -5.0f}, {41, 1.0f}}};
  EXPECT_EQ(Count(request), 0);
  request.sampling = {.temperature = 0};
  EXPECT_EQ(Count(request), 0);
  request.top_logprobs = 5;
  EXPECT_EQ(Count(request), 0);
  // More of them come and go than there is room for at once.
  request.logit_bias.penalty_last_tokens = 7;
  EXPECT_EQ(Count(request), 0);
  // The whole row, for a token that is no candidate.
  request.logit_bias.biases = {{40, 50.0f}};
  EXPECT_EQ(Count(request), 0);
  request.sampling = {.top_k = 0, .top_p = 0.9f};
  EXPECT_EQ(Count(request), 0);
}

TEST_P(StepAllocationsTest, AContextThatRollsAllocatesNothing) {
  GenerateOptions request = Request({.temperature = 0});
  request.prompt_ids = RandomIds(100, 3);
  request.roll.policy = ContextPolicy::kRoll;
  // A page leaves after 32 tokens, and every 64 from there on.
  EXPECT_EQ(CountWith({.n_ctx = 192}, request), 0);
  EXPECT_EQ(info_.n_evictions, 3);
}

TEST_P(StepAllocationsTest, GuessedTokensAllocateNothing) {
  GenerateOptions request =
      Request({.temperature = 100, .top_k = 4, .top_p = 1, .min_p = 0});
  request.draft_tokens = 4;
  // Four tokens follow each other, as before or not.
  for (int32_t id = 30; id < 34; ++id) {
    request.logit_bias.biases.push_back({id, 900.0f});
  }
  EXPECT_EQ(CountWith({.n_draft = 4}, request), 0);
  EXPECT_GT(info_.n_accepted, 20);
  EXPECT_LT(info_.n_accepted, info_.n_drafted);
  request.top_logprobs = 5;
  EXPECT_EQ(CountWith({.n_draft = 4}, request), 0);
}

TEST_P(StepAllocationsTest, ASharedPoolOfPagesAllocatesNothing) {
  EXPECT_EQ(CountWith({.n_ctx = 512, .kv_tokens = 1'024}, Request({})), 0);
}

// All pages are another tenant's when they are taken, and some of them were
// remembered for it.
TEST_P(StepAllocationsTest, PagesOfAnotherTenantAllocateNothing) {
  int64_t n_cleared = 0;
  const HookedDevice device(
      {.clearing = [&](kernels::BufferView) { ++n_cleared; }});
  before_ = [](Engine& engine) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      GenerateOptions other = Request({.temperature = 0});
      other.claim.tenant = "other";
      other.prompt_ids = RandomIds(150, seed);
      EXPECT_TRUE(Generate(engine, other).status.ok());
    }
  };
  EXPECT_EQ(CountWith({.n_ctx = 512, .kv_tokens = 1'024, .device = &device},
                      Request({})),
            0);
  EXPECT_GT(n_cleared, 0);
}

TEST_P(StepAllocationsTest, AContextThatIsComputedAgainAllocatesNothing) {
  GenerateOptions request = Request({.temperature = 0});
  request.prompt_ids = RandomIds(100, 3);
  request.roll.policy = ContextPolicy::kRoll;
  request.roll.method = RollMethod::kRecompute;
  EXPECT_EQ(CountWith({.n_ctx = 192, .n_ubatch = 16}, request), 0);
  EXPECT_EQ(info_.n_evictions, 3);
}

TEST_P(StepAllocationsTest, PromptsBesideDecodersAllocateNothing) {
  const TemporaryFile file(RandomModelBytes(FindRandomModel(GetParam())));
  auto engine =
      LoadEngine(file.path(), {.n_ctx = 2'048, .n_slots = 3, .n_ubatch = 8});
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerateOptions prompt = Request({.temperature = 0});
  prompt.max_tokens = 1;
  const std::atomic<bool> is_open = true;
  auto decoder = std::make_shared<CountingSink>(is_open);
  const auto first = std::make_shared<CollectSink>();
  const auto second = std::make_shared<CollectSink>();
  decoder->at_first = [&] {
    prompt.prompt_ids = RandomIds(1'300, 3);
    EXPECT_TRUE((*engine)->Submit(prompt, first).ok());
    prompt.prompt_ids = RandomIds(1'300, 4);
    EXPECT_TRUE((*engine)->Submit(prompt, second).ok());
  };
  // Neither has computed all of it when the decoder counts for the last time.
  bool has_ended = false;
  first->after_output = [&](int64_t) { has_ended = true; };
  second->after_output = [&](int64_t) { has_ended = true; };
  bool was_computing = false;
  decoder->at_last = [&] { was_computing = !has_ended; };
  ASSERT_TRUE((*engine)->Submit(Request({.temperature = 0}), decoder).ok());
  EXPECT_EQ(decoder->Await(), 0);
  EXPECT_TRUE(was_computing);
  EXPECT_TRUE(first->Await().status.ok());
  EXPECT_TRUE(second->Await().status.ok());
}

TEST_P(StepAllocationsTest, PromptsThatAreScoredAllocateNothing) {
  EXPECT_EQ(CountWith({.n_ubatch = 4}, ScoredPrompt()), 0);
}

// With a new state for every byte, and with open rules.
TEST_P(StepAllocationsTest, ConstraintsAllocateNothing) {
  for (const char* grammar :
       {"root ::= [a-z]{9000}",
        "root ::= \"(\" root \")\" | \"[\" root \"]\" | [0-9]{900}"}) {
    SCOPED_TRACE(grammar);
    GenerateOptions request = Request({});
    request.ignore_eos = false;
    auto constraint = CompileGbnf(grammar);
    ASSERT_TRUE(constraint.ok()) << constraint.status();
    request.constraint = *std::move(constraint);
    EXPECT_EQ(Count(request), 0);
    request.sampling = {.temperature = 0};
    EXPECT_EQ(Count(request), 0);
    // All that are allowed.
    request.sampling = {.top_k = 0, .top_p = 0.9f};
    EXPECT_EQ(Count(request), 0);
  }
}

// Pages and with them a limit, rings without, experts, latent attention, and
// states.
using HeadAllocationsTest = StepAllocationsTest;

TEST_P(HeadAllocationsTest, GuessesOfAnMtpHeadAllocateNothing) {
  const EngineSetup setup = {.n_draft = 4,
                             .draft_source = planner::DraftSource::kMtp};
  EXPECT_EQ(CountWith(setup, Request({.temperature = 0})), 0);
  EXPECT_GT(info_.n_drafted, kCounted);
}

INSTANTIATE_TEST_SUITE_P(All, HeadAllocationsTest,
                         ::testing::Values("qwen35_mtp", "deepseek2_mtp"));

INSTANTIATE_TEST_SUITE_P(
    Models, StepAllocationsTest,
    ::testing::Values("llama_half", "gemma_k", "qwen2moe_q8_0", "gpt_oss_q4_0",
                      "gemma4_keys", "gemma4_shared", "gemma3n_q5_0",
                      "deepseek2_q8_0", "lfm2_q8_0", "qwen3next_q8_0",
                      "nemotron_h_q8_0"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace plimsoll::worker
