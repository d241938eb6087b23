#include "tests/worker/engine/batch_mix.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/worker/random_model.h"

namespace plimsoll::testing {
namespace {

struct Running {
  size_t request;
  bool is_left;
  std::shared_ptr<CollectSink> sink;
};

// Waits until the stream has said `n_tokens`, or its end.
class Starter {
 public:
  explicit Starter(CollectSink& sink, int64_t n_tokens) {
    sink.after_output = [this, n_tokens](int64_t n) {
      absl::MutexLock lock(&mu_);
      has_begun_ |= n >= n_tokens;
    };
  }
  void Await() {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&has_begun_), absl::Seconds(60));
  }

 private:
  absl::Mutex mu_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::vector<worker::GenerateOptions> MixedRequests() {
  std::mt19937 random(77);
  const std::vector<int32_t> common = RandomIds(130, random);
  std::vector<worker::GenerateOptions> requests;
  for (int i = 0; i < 24; ++i) {
    const auto n_common = static_cast<int64_t>(i % 3 == 0 ? random() % 130 : 0);
    std::vector<int32_t> prompt(common.begin(), common.begin() + n_common);
    const std::vector<int32_t> own =
        RandomIds(1 + static_cast<int64_t>(random() % 40), random);
    prompt.insert(prompt.end(), own.begin(), own.end());
    // What repeats itself can be guessed.
    if (i % 2 == 0) prompt.insert(prompt.end(), prompt.begin(), prompt.end());
    requests.push_back(GreedyWithTop(std::vector<int32_t>(prompt),
                                     1 + static_cast<int64_t>(random() % 24),
                                     3));
    worker::GenerateOptions& request = requests.back();
    if (i % 4 == 0) request.max_tokens = 120;  // greedy ones fall into loops
    if (i % 5 == 1) {
      request.sampling = {.temperature = 1, .seed = random()};
      request.logit_bias.repetition_penalty = 1.2f;
    }
    if (i % 6 != 2) continue;
    request.roll.policy = worker::ContextPolicy::kRoll;
    request.max_tokens = 300;
    request.roll.pin_tokens = i % 4 == 0 ? 0 : 70;
  }
  return requests;
}

std::vector<Generated> EachAlone(
    worker::Engine& engine,
    const std::vector<worker::GenerateOptions>& requests) {
  std::vector<Generated> alone;
  for (const worker::GenerateOptions& request : requests) {
    alone.push_back(Generate(engine, request));
    EXPECT_TRUE(alone.back().status.ok()) << alone.back().status;
  }
  return alone;
}

void ExpectMixesChangeNothing(
    worker::Engine& engine,
    const std::vector<worker::GenerateOptions>& requests,
    const std::vector<Generated>& alone, int n_mixes, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t n_draft = engine.plan().options.n_draft;
  for (int mix = 0; mix < n_mixes && !::testing::Test::HasFailure(); ++mix) {
    SCOPED_TRACE(mix);
    std::vector<Running> running;
    std::vector<std::unique_ptr<Starter>> starters;
    for (auto n = 2 + random() % 4; n > 0; --n) {
      const size_t at = random() % requests.size();
      worker::GenerateOptions request = requests[at];
      request.draft_tokens =
          static_cast<int64_t>(random() % static_cast<uint64_t>(n_draft + 1));
      auto sink = std::make_shared<CollectSink>();
      // The next one begins when this one has said something, or at once.
      auto starter = std::make_unique<Starter>(
          *sink, 1 + static_cast<int64_t>(random() % 3));
      ASSERT_TRUE(engine.Submit(std::move(request), sink).ok());
      if (random() % 2 == 0 && alone[at].tokens.size() >= 4) starter->Await();
      starters.push_back(std::move(starter));
      running.push_back({at, random() % 8 == 0, std::move(sink)});
      if (running.back().is_left) running.back().sink->Abandon();
    }
    for (const Running& one : running) {
      const Generated got = one.sink->Await();
      if (one.is_left) continue;
      EXPECT_TRUE(SameBits(got, alone[one.request])) << one.request;
    }
  }
}

MixedWork ExpectMixesInChunksChangeNothing(
    EngineSetup setup, std::initializer_list<int64_t> ubatches,
    absl::FunctionRef<worker::Engine*(const EngineSetup&)> load,
    const std::vector<worker::GenerateOptions>& requests,
    const std::vector<Generated>& alone, int n_mixes) {
  MixedWork work;
  uint32_t seed = 0;
  for (const int64_t n_ubatch : ubatches) {
    SCOPED_TRACE(n_ubatch);
    setup.n_ubatch = n_ubatch;
    worker::Engine* const engine = load(setup);
    if (engine == nullptr) {
      ADD_FAILURE() << "there is no engine";
      return work;
    }
    ExpectMixesChangeNothing(*engine, requests, alone, n_mixes, ++seed);
    work.n_cached += engine->CurrentLoad().cached_tokens;
    work.n_guessed += engine->CurrentLoad().draft_tokens;
  }
  return work;
}

}  // namespace plimsoll::testing
