// Draws by the candidates of a row, and by a device from all of its logits,
// beside those by the host from all of them: the same tokens, ranks and
// log-probabilities, and when the row is looked at.
#include "worker/sampling/row_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "kernels/cpu/thread_pool.h"
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
#include "kernels/cuda/emulated_backend.h"
#endif
#include "tests/worker/device/hooked_backend.h"
#include "worker/engine/sequence.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::HookedBackend;

// Logits that are there already, less those that nobody looks at.
class GivenLogits final : public Model {
 public:
  GivenLogits(std::vector<float> logits, size_t n_rows)
      : all_(std::move(logits)),
        logits_(all_),
        vocab_size_(all_.size() / n_rows) {}

  // Leaves out what is not looked at, as a step may.
  void LeaveOut(std::span<const kernels::TopOutputs> looked_at) {
    for (size_t row = 0; row < looked_at.size(); ++row) {
      const kernels::TopOutputs& top = looked_at[row];
      const std::span<const float> from = Row(row);
      std::vector<int32_t> ids(vocab_size_);
      std::iota(ids.begin(), ids.end(), 0);
      std::ranges::stable_sort(ids, std::greater<>(), [&](int32_t id) {
        return from[static_cast<size_t>(id)];
      });
      ids.resize(std::min(ids.size(), static_cast<size_t>(top.k)));
      ids.insert(ids.end(), top.always.begin(), top.always.end());
      float* const to = logits_.data() + row * vocab_size_;
      std::fill_n(to, vocab_size_, kernels::kNotComputed);
      for (const int32_t id : ids) to[id] = from[static_cast<size_t>(id)];
    }
  }

  std::span<const float> Row(size_t row) const {
    return std::span(all_).subspan(row * vocab_size_, vocab_size_);
  }

  absl::Status Step(const StepBatch& /*batch*/) override {
    return absl::UnimplementedError("no step");
  }
  absl::Status ComputeLogits(std::span<const int32_t> /*rows*/) override {
    logits_ = all_;
    return absl::OkStatus();
  }
  const float* Logits() const override { return logits_.data(); }

 private:
  const std::vector<float> all_;
  std::vector<float> logits_;
  const size_t vocab_size_;
};

std::unique_ptr<kernels::Backend> NewBackend(bool is_host,
                                             kernels::ThreadPool& pool) {
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  if (!is_host) return kernels::NewEmulatedCudaBackend().value();
#endif
  EXPECT_TRUE(is_host);
  return kernels::NewCpuBackend(pool);
}

// Whether the backend's memory is the host's.
class RowSamplerTest : public ::testing::TestWithParam<bool> {
 protected:
  // A sequence that begins its reply after `prompt`.
  static std::unique_ptr<Sequence> Begun(const GenerateOptions& options,
                                         const std::vector<int32_t>& prompt) {
    TokenHistory history(0);
    history.Append(prompt);
    SequenceStart start;
    start.history = std::move(history);
    start.n_prompt = std::ssize(prompt);
    return std::make_unique<Sequence>(
        1,
        Arrival{.options = options, .sink = nullptr, .time = absl::UnixEpoch()},
        std::move(start));
  }

  // What the row says of the draw, all of it.
  static TokenOutput Expected(std::span<const float> row,
                              const Sequence& sequence) {
    const GenerateOptions& wanted = sequence.options();
    std::vector<float> logits(row.begin(), row.end());
    ApplyLogitBias(wanted.logit_bias, sequence.recent(), logits);
    Sampler sampler(std::ssize(row));
    TokenOutput token;
    const std::optional<int32_t> forced = sequence.NextDraw().forced;
    token.id =
        forced ? *forced : sampler.Sample(logits, wanted.sampling, 0).value();
    const float chosen = row[static_cast<size_t>(token.id)];
    token.rank =
        std::ranges::count_if(row, [&](float other) { return other > chosen; });
    double sum = 0;
    for (const float logit : row) {
      sum += std::exp(double{logit} - double{chosen});
    }
    token.logprob = static_cast<float>(-std::log(sum));
    return token;
  }

  // Draws after rows of `logits`, one for each sequence, and compares.
  void ExpectWholeRows(
      std::vector<float> logits,
      const std::vector<std::unique_ptr<Sequence>>& sequences) {
    const size_t n_rows = sequences.size();
    const auto vocab_size =
        static_cast<int64_t>(logits.size() / sequences.size());
    GivenLogits model(std::move(logits), n_rows);
    RowSampler sampler(model, backend_, vocab_size,
                       static_cast<int64_t>(n_rows));
    std::vector<DrawRequest> draws;
    draws.reserve(n_rows);
    for (const auto& sequence : sequences)
      draws.push_back(sequence->NextDraw());
    std::vector<int32_t> rows(n_rows);
    std::iota(rows.begin(), rows.end(), 0);
    model.LeaveOut(sampler.RequiredLogits(draws, LogitsLater::kPossible));
    ASSERT_TRUE(sampler.Begin(draws, rows).ok());
    for (size_t i = 0; i < n_rows; ++i) {
      const auto token = sampler.Draw(draws[i], static_cast<int64_t>(i));
      ASSERT_TRUE(token.ok()) << token.status();
      const TokenOutput expected = Expected(model.Row(i), *sequences[i]);
      ASSERT_EQ(token->id, expected.id);
      if (sequences[i]->options().top_logprobs < 0) continue;
      EXPECT_EQ(token->rank, expected.rank);
      EXPECT_NEAR(token->logprob, expected.logprob, 2e-5);
    }
  }

  // How many draws were the device's while one was made after `logits`.
  int64_t Sampled(const std::vector<float>& logits,
                  const GenerateOptions& options) {
    return SampledAfter(/*prompt=*/{}, logits, options);
  }
  int64_t SampledAfter(const std::vector<int32_t>& prompt,
                       const std::vector<float>& logits,
                       const GenerateOptions& options) {
    n_sampled_ = 0;
    std::vector<std::unique_ptr<Sequence>> sequences;
    sequences.push_back(Begun(options, prompt));
    ExpectWholeRows(logits, sequences);
    return n_sampled_;
  }

  // A device is emulated, and takes its time.
  int Times(int n) const { return GetParam() ? n : n / 10; }

  int64_t n_sampled_ = 0;

 private:
  kernels::ThreadPool pool_{1, kernels::WorkerCpus::kAny};
  HookedBackend backend_{NewBackend(GetParam(), pool_),
                         {.downloaded = [](int64_t) { ADD_FAILURE(); },
                          .sampling = [this] { ++n_sampled_; }}};
};

INSTANTIATE_TEST_SUITE_P(Hosts, RowSamplerTest, ::testing::Values(true));

using Random = std::mt19937;

size_t Below(Random& random, size_t n) { return random() % n; }

template <class T>
T OneOf(Random& random, const std::vector<T>& values) {
  return values[Below(random, values.size())];
}

// Peaked or flat; of a coarse grid where they are to be equal often.
std::vector<float> RandomRow(Random& random, size_t vocab_size) {
  std::normal_distribution<float> normal(
      0.0f, OneOf<float>(random, {0.15f, 0.3f, 2, 5}));
  const float grid = OneOf<float>(random, {0, 0, 0.25f, 1});
  std::vector<float> row(vocab_size);
  for (float& logit : row) {
    logit = normal(random);
    if (grid > 0) logit = std::round(logit / grid) * grid;
  }
  return row;
}

// Likely ones more often than others.
int32_t RandomId(Random& random, const std::vector<int32_t>& by_logit) {
  const size_t n = by_logit.size();
  return by_logit[Below(random,
                        random() % 2 == 0 ? n : std::min<size_t>(n, 80))];
}

SamplingOptions RandomSampling(Random& random) {
  SamplingOptions options;
  options.seed = random();
  options.temperature =
      OneOf<float>(random, {0, 0.1f, 0.5f, 0.8f, 1, 1, 2, 10, 100});
  options.top_k = OneOf<int32_t>(random, {0, 0, 1, 5, 40, 64, 65});
  options.top_p = OneOf<float>(random, {1, 1, 0.95f, 0.5f});
  options.min_p = OneOf<float>(random, {0, 0, 0.05f, 0.3f});
  if (random() % 8 == 0) options.typical_p = 0.7f;
  if (random() % 8 == 0) {
    options.top_k = 0;
    options.top_p = 1;
    options.min_p = 0;
    options.typical_p = 1;
  }
  return options;
}

LogitBiasOptions RandomBias(Random& random,
                            const std::vector<int32_t>& by_logit) {
  LogitBiasOptions options;
  const size_t n =
      std::min(OneOf<size_t>(random, {0, 0, 1, 3, 20}), by_logit.size() / 2);
  while (options.biases.size() < n) {
    const int32_t id = RandomId(random, by_logit);
    if (std::ranges::count(options.biases, id, &LogitBias::id) > 0) continue;
    options.biases.push_back({id, OneOf<float>(random, {-1'000, -5, -1, -0.25f,
                                                        0, 0.25f, 1, 1'000})});
  }
  options.repetition_penalty =
      OneOf<float>(random, {1, 1, 1.1f, 1.3f, 2, 100, 0.8f});
  options.presence_penalty = OneOf<float>(random, {0, 0, 0.25f, 2, -1});
  options.frequency_penalty = OneOf<float>(random, {0, 0, 0.25f, -0.25f});
  return options;
}

std::vector<int32_t> IdsByLogit(const std::vector<float>& row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::greater<>(), [&](int32_t id) {
    return row[static_cast<size_t>(id)];
  });
  return ids;
}

struct DrawKinds {
  bool are_changed;
  bool look_at_few;  // so that a step may leave logits out
  bool have_logprobs;
};

GenerateOptions RandomRequest(Random& random, const DrawKinds& kinds,
                              const std::vector<int32_t>& by_logit) {
  GenerateOptions options;
  options.sampling = RandomSampling(random);
  if (kinds.look_at_few) {
    options.sampling.top_k = OneOf<int32_t>(random, {1, 5, 40, 64});
  }
  options.top_logprobs =
      kinds.have_logprobs ? OneOf<int>(random, {-1, 0, 5}) : -1;
  if (kinds.are_changed) options.logit_bias = RandomBias(random, by_logit);
  return options;
}

TEST_P(RowSamplerTest, DrawsAreThoseOfWholeRows) {
  Random random(1);
  int64_t n_draws = 0;
  constexpr size_t kRows = 12;
  n_sampled_ = 0;
  for (int i = 0; i < Times(2'000); ++i) {
    SCOPED_TRACE(i);
    const DrawKinds kinds = {.are_changed = i % 2 == 0,
                             .look_at_few = i % 3 == 0,
                             .have_logprobs = i % 3 == 1};
    const auto vocab_size =
        OneOf<size_t>(random, {1, 2, 5, 63, 64, 65, 128, 300, 2'000});
    std::vector<float> logits;
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (size_t row = 0; row < kRows; ++row) {
      const std::vector<float> one = RandomRow(random, vocab_size);
      logits.insert(logits.end(), one.begin(), one.end());
      const std::vector<int32_t> by_logit = IdsByLogit(one);
      std::vector<int32_t> prompt(OneOf<size_t>(random, {0, 1, 10, 64}));
      for (int32_t& id : prompt) id = RandomId(random, by_logit);
      sequences.push_back(
          Begun(RandomRequest(random, kinds, by_logit), prompt));
    }
    ExpectWholeRows(std::move(logits), sequences);
    if (HasFatalFailure()) return;
    n_draws += static_cast<int64_t>(kRows);
  }
  EXPECT_LT(n_sampled_, n_draws / 2);
  EXPECT_EQ(n_sampled_ > n_draws / 10, !GetParam());
}

TEST_P(RowSamplerTest, PlainDrawsAreThoseOfWholeRowsAtEveryTemperature) {
  Random random(2);
  constexpr size_t kRows = 12;
  for (const float temperature :
       {1e-38f, 0.001f, 0.1f, 0.3f, 0.8f, 1.0f, 1.5f, 5.0f, 30.0f, 100.0f}) {
    for (const size_t vocab_size : {1u, 3u, 64u, 65u, 500u, 5'000u}) {
      SCOPED_TRACE(temperature);
      for (int i = 0; i < std::max(Times(5), 1); ++i) {
        std::vector<float> logits;
        std::vector<std::unique_ptr<Sequence>> sequences;
        for (size_t row = 0; row < kRows; ++row) {
          const std::vector<float> one = RandomRow(random, vocab_size);
          logits.insert(logits.end(), one.begin(), one.end());
          GenerateOptions options;
          options.sampling = {.temperature = temperature,
                              .top_k = 0,
                              .top_p = 1,
                              .min_p = 0,
                              .seed = random()};
          options.top_logprobs = 3;
          sequences.push_back(Begun(options, {}));
        }
        ExpectWholeRows(std::move(logits), sequences);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Token i of 1,000 has the logit -i / 10: the last candidate's is -6.3.
std::vector<float> Ladder() {
  std::vector<float> logits(1'000);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = -0.1f * static_cast<float>(i);
  }
  return logits;
}

struct ChainOptions {
  LogitBiasOptions bias = {};
  int top_logprobs = -1;
};

GenerateOptions Chain(SamplingOptions sampling, ChainOptions chain) {
  GenerateOptions options;
  options.sampling = sampling;
  options.logit_bias = std::move(chain.bias);
  options.top_logprobs = chain.top_logprobs;
  return options;
}

constexpr SamplingOptions kGreedy = {.temperature = 0};

SamplingOptions Plain(float temperature, uint64_t seed) {
  return {.temperature = temperature,
          .top_k = 0,
          .top_p = 1,
          .min_p = 0,
          .seed = seed};
}

// Has a reply begin with token `id`, which ends its reasoning.
GenerateOptions Forced(int32_t id, GenerateOptions options) {
  options.reasoning =
      ReasoningLimit{.max_tokens = 0,
                     .reading = {.format = FindReplyFormat("<think>"),
                                 .begins_reasoning = true},
                     .end = {id}};
  return options;
}

TEST_P(RowSamplerTest, AForcedTokenComesInAnyCase) {
  for (const int32_t id : {0, 1, 63, 64, 800, 999}) {
    for (const SamplingOptions& sampling : {kGreedy, Plain(1, 7)}) {
      Sampled(Ladder(), Forced(id, Chain(sampling, {})));
      Sampled(Ladder(), Forced(id, Chain(sampling, {.top_logprobs = 5})));
      Sampled(
          Ladder(),
          Forced(id, Chain(sampling, {.bias = {.biases = {{id, -1'000}}}})));
    }
  }
}

class DeviceRowTest : public RowSamplerTest {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceRowTest);

#ifdef PLIMSOLL_TEST_CUDA_EMULATION
INSTANTIATE_TEST_SUITE_P(Devices, RowSamplerTest, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Devices, DeviceRowTest, ::testing::Values(false));
#endif

TEST_P(DeviceRowTest, LogprobsOfCandidatesNeedNoRow) {
  EXPECT_EQ(Sampled(Ladder(), Chain(kGreedy, {.top_logprobs = 5})), 0);
  EXPECT_EQ(Sampled(Ladder(), Chain({}, {.top_logprobs = 0})), 0);
  // All but the first two are equal, as candidates or not.
  std::vector<float> equal(1'000, 1.0f);
  equal[7] = 2;
  equal[9] = 3;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(Sampled(equal, Chain({.seed = seed}, {.top_logprobs = 5})), 0);
  }
}

TEST_P(DeviceRowTest, ChangesThatCandidatesSettleNeedNoRow) {
  const std::vector<int32_t> prompt = {0, 1, 2, 3, 500, 0, 900, 999};
  const LogitBiasOptions penalties = {
      .repetition_penalty = 1.2f,
      .presence_penalty = 0.5f,
      .frequency_penalty = 0.25f,
      .biases = {{0, -1'000}, {5, 3}, {700, -5}, {20, -100}}};
  for (const SamplingOptions& sampling :
       {kGreedy, SamplingOptions{},
        SamplingOptions{.top_k = 0, .top_p = 1, .min_p = 0.1f}}) {
    EXPECT_EQ(
        SampledAfter(prompt, Ladder(), Chain(sampling, {.bias = penalties})),
        0);
    EXPECT_EQ(
        SampledAfter(prompt, Ladder(),
                     Chain(sampling, {.bias = penalties, .top_logprobs = 5})),
        0);
  }
  // A token far below, lifted by less than it takes to be the largest.
  EXPECT_EQ(
      Sampled(Ladder(), Chain(kGreedy, {.bias = {.biases = {{800, 6.0f}}}})),
      0);
  // Penalties that add, on a token that is none of the candidates.
  EXPECT_EQ(SampledAfter({800}, Ladder(),
                         Chain(kGreedy, {.bias = {.presence_penalty = -6}})),
            0);
}

TEST_P(DeviceRowTest, ChangesThatOthersMayWinByComeFromTheRow) {
  EXPECT_EQ(SampledAfter({800}, Ladder(),
                         Chain(kGreedy, {.bias = {.presence_penalty = -7}})),
            1);
  // The 40 largest of 64 of which 30 are banned.
  LogitBiasOptions bans;
  for (int32_t id = 0; id < 30; ++id) bans.biases.push_back({id, -1'000});
  EXPECT_EQ(Sampled(Ladder(), Chain({}, {.bias = bans})), 1);
  EXPECT_EQ(Sampled(Ladder(), Chain(kGreedy, {.bias = bans})), 0);
  // The only one above the others falls to them, and equals by its id.
  std::vector<float> equal(1'000, 1.0f);
  equal[999] = 2;
  EXPECT_EQ(Sampled(equal, Chain(kGreedy, {.bias = {.biases = {{999, -1}}}})),
            1);
  EXPECT_EQ(
      Sampled(equal, Chain(kGreedy, {.bias = {.biases = {{999, -0.5f}}}})), 0);
  // Nobody knows what the others weigh together after changes.
  EXPECT_EQ(
      Sampled(Ladder(), Chain(Plain(1, 0), {.bias = {.biases = {{1, 1}}}})), 1);
}

TEST_P(DeviceRowTest, TokensThatABiasLiftsComeFromTheRow) {
  for (const float bias : {100.0f, 85.0f, 7.0f}) {
    const LogitBiasOptions lifted = {.biases = {{900, bias}}};
    EXPECT_EQ(
        Sampled(Ladder(), Chain(kGreedy, {.bias = lifted, .top_logprobs = 0})),
        1);
    EXPECT_EQ(Sampled(Ladder(), Chain({}, {.bias = lifted})), 1);
    EXPECT_EQ(Sampled(Ladder(), Chain(Plain(1, 0), {.bias = lifted})), 1);
  }
}

TEST_P(DeviceRowTest, ATokenBelowTheCandidatesHasItsLogprobFromTheDevice) {
  EXPECT_EQ(Sampled(Ladder(), Chain(kGreedy, {.bias = {.biases = {{800, 900}}},
                                              .top_logprobs = 0})),
            1);
}

TEST_P(DeviceRowTest, AForcedTokenIsLookedUpForItsLogprobOnly) {
  const GenerateOptions reported = Chain(kGreedy, {.top_logprobs = 0});
  EXPECT_EQ(Sampled(Ladder(), Forced(800, Chain(kGreedy, {}))), 0);
  EXPECT_EQ(Sampled(Ladder(), Forced(800, reported)), 1);
  EXPECT_EQ(Sampled(Ladder(), Forced(3, Chain(kGreedy, {.top_logprobs = 5}))),
            0)
      << "a candidate";
}

TEST_P(DeviceRowTest, PlainDrawsAmongTheCandidatesNeedNoRow) {
  constexpr int kDraws = 100;
  for (const float temperature : {0.5f, 1.0f, 10.0f}) {
    // What the 64 largest weigh of all.
    const double step = -0.1 / double{temperature};
    const double share = std::expm1(64 * step) / std::expm1(1'000 * step);
    int64_t n_sampled = 0;
    double n_outside = 0;
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      n_outside += UniformAt(seed, 0) > share ? 1 : 0;
      n_sampled += Sampled(
          Ladder(), Chain(Plain(temperature, seed), {.top_logprobs = 0}));
    }
    EXPECT_GE(n_sampled, n_outside) << temperature;
    // A few more are sampled that lie too near to the border of two.
    EXPECT_LE(n_sampled, n_outside + 0.04 * kDraws) << temperature;
  }
}

}  // namespace
}  // namespace plimsoll::worker
