// Draws from whole rows by a device, beside the obvious ones in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names = BackendNames();
  std::erase_if(names, [](const std::string& name) { return !IsCuda(name); });
  return names;
}

using Logits = std::vector<float>;
using Ids = std::vector<int32_t>;

float At(const Logits& logits, int32_t id) {
  return logits[static_cast<size_t>(id)];
}

// The tokens in the order of draws.
Ids InOrder(const Logits& logits) {
  Ids ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return At(logits, a) > At(logits, b);
  });
  return ids;
}

std::vector<double> WeightsOf(const Logits& logits, const Ids& ids,
                              double inverse) {
  const double max = double{At(logits, ids.front())};
  std::vector<double> weights;
  for (const int32_t id : ids) {
    weights.push_back(std::exp((double{At(logits, id)} - max) * inverse));
  }
  return weights;
}

double SumOf(const std::vector<double>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// How many of the first ones reach `share` of all.
size_t Reaching(const std::vector<double>& weights, double share) {
  const double wanted = share * SumOf(weights);
  size_t n = 0;
  double sum = 0;
  while (n < weights.size() && sum < wanted) sum += weights[n++];
  return std::max<size_t>(n, 1);
}

void KeepTypical(const Logits& logits, float typical_p, Ids& ids) {
  const std::vector<double> weights = WeightsOf(logits, ids, 1);
  const double max = double{At(logits, ids.front())};
  double expected = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    expected += weights[i] * (double{At(logits, ids[i])} - max);
  }
  expected /= SumOf(weights);
  const auto distance = [&](int32_t id) {
    return static_cast<float>(
        std::abs(double{At(logits, id)} - max - expected));
  };
  Ids nearest = ids;
  std::sort(nearest.begin(), nearest.end(), [&](int32_t a, int32_t b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
  std::vector<double> sorted;
  for (const int32_t id : nearest) {
    sorted.push_back(std::exp(double{At(logits, id)} - max));
  }
  nearest.resize(Reaching(sorted, double{typical_p}));
  std::erase_if(ids, [&](int32_t id) {
    return std::find(nearest.begin(), nearest.end(), id) == nearest.end();
  });
}

// What the draw is from, and what each of these weighs.
struct Choice {
  Ids ids;
  std::vector<double> weights;

  int32_t Drawn(double u) const {
    double left = u * SumOf(weights);
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      left -= weights[i];
      if (left < 0) return ids[i];
    }
    return ids.back();
  }
};

Choice ChoiceOf(const Logits& row, const SampleArgs& args) {
  Logits logits = row;
  for (const LogitChange& change : args.changes) {
    float& logit = logits[static_cast<size_t>(change.id)];
    logit += change.bias;
    logit = logit > 0 ? logit / change.repetition : logit * change.repetition;
    logit -= change.penalty;
  }
  Ids ids = InOrder(logits);
  if (!args.allowed.empty()) {
    std::erase_if(ids, [&](int32_t id) {
      const auto i = static_cast<size_t>(id);
      return i / 64 >= args.allowed.size() ||
             (args.allowed[i / 64] >> (i % 64) & 1) == 0;
    });
  }
  if (args.top_k > 0 && args.top_k < std::ssize(ids)) {
    ids.resize(static_cast<size_t>(args.top_k));
  }
  if (args.typical_p < 1) KeepTypical(logits, args.typical_p, ids);
  if (args.top_p < 1) {
    ids.resize(Reaching(WeightsOf(logits, ids, 1), double{args.top_p}));
  }
  const std::vector<double> weights = WeightsOf(logits, ids, 1);
  const auto is_unlikely = [&](double w) { return w < double{args.min_p}; };
  ids.resize(static_cast<size_t>(
      std::find_if(weights.begin(), weights.end(), is_unlikely) -
      weights.begin()));
  return {ids, WeightsOf(logits, ids, double{args.inverse_temperature})};
}

class SampleTest : public BackendTest {
 protected:
  // Draws, and compares with the choice at `u`.
  void ExpectDraw(const Logits& logits, SampleArgs args) {
    args.logits = logits.data();
    args.n = std::ssize(logits);
    const absl::StatusOr<SampledToken> token = backend().Sample(args);
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->id, ChoiceOf(logits, args).Drawn(args.u));
    const float logit = At(logits, token->id);
    EXPECT_EQ(token->logit, logit);
    EXPECT_EQ(token->rank,
              std::count_if(logits.begin(), logits.end(),
                            [logit](float other) { return other > logit; }));
  }

  absl::Status StatusOf(const Logits& logits, SampleArgs args) {
    args.logits = logits.data();
    args.n = std::ssize(logits);
    return backend().Sample(args).status();
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SampleTest);

// In the middle of a token's share of [0, 1) the token is drawn.
TEST_P(SampleTest, EachTokenHasItsShare) {
  RandomData random(1);
  for (const int64_t n : {1, 2, 33, 1024, 1025, 5000}) {
    const Logits logits = random.FloatsWithin(n, 4.0f);
    for (const float inverse : {1.0f, 0.3f, 2.0f}) {
      const Choice choice = ChoiceOf(logits, {.inverse_temperature = inverse});
      const double total = SumOf(choice.weights);
      double before = 0;
      for (size_t i = 0; i < choice.ids.size(); ++i) {
        const double middle = before + choice.weights[i] / 2;
        before += choice.weights[i];
        if (i % static_cast<size_t>(n / 20 + 1) != 0) continue;
        const auto token = backend().Sample({.logits = logits.data(),
                                             .n = n,
                                             .u = middle / total,
                                             .inverse_temperature = inverse});
        ASSERT_TRUE(token.ok()) << token.status();
        EXPECT_EQ(token->id, choice.ids[i]) << n << " " << inverse;
      }
    }
  }
}

TEST_P(SampleTest, EveryChainLeavesWhatItShould) {
  RandomData random(2);
  const auto one_of = [&](std::initializer_list<float> values) {
    return values.begin()[random.Integer(0, std::ssize(values) - 1)];
  };
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const int64_t n = random.Integer(1, 3000);
    Logits logits = random.FloatsWithin(n, one_of({0.5f, 3, 10}));
    if (i % 3 == 0) {  // a coarse grid makes ties
      for (float& logit : logits) logit = std::round(logit * 2) / 2;
    }
    std::vector<LogitChange> changes;
    for (int64_t id = 0; i % 4 == 0 && id < n; id += random.Integer(1, 200)) {
      changes.push_back({.id = static_cast<int32_t>(id),
                         .bias = one_of({0, -100, 3, -1}),
                         .repetition = one_of({1, 1.3f, 0.5f}),
                         .penalty = one_of({0, 0.25f, -2})});
    }
    std::vector<uint64_t> allowed;
    if (i % 5 == 0) {  // bits for more tokens than there are, and for fewer
      allowed.resize(static_cast<size_t>(n / 64 + i % 2));
      if (allowed.empty()) allowed.resize(1);
      for (uint64_t& word : allowed) {
        word = static_cast<uint64_t>(
            random.Integer(0, std::numeric_limits<int64_t>::max()));
      }
      allowed[0] |= 1;
    }
    ExpectDraw(logits,
               {.u = double{random.Uniform(0, 0.9999999f)},
                .inverse_temperature = one_of({1, 1.25f, 10, 0.5f, 0.01f}),
                .top_k = static_cast<int64_t>(one_of({0, 0, 1, 65, 500, 9999})),
                .typical_p = one_of({1, 1, 1, 0.7f, 0.2f}),
                .top_p = one_of({1, 1, 0.95f, 0.5f, 0.01f}),
                .min_p = one_of({0, 0, 0.05f, 0.3f, 1}),
                .changes = changes,
                .allowed = allowed});
    if (HasFailure()) return;
  }
}

TEST_P(SampleTest, DrawsFromAWholeVocabulary) {
  RandomData random(3);
  const Logits logits = random.FloatsWithin(262'144, 12.0f);
  ExpectDraw(logits, {.u = 0.7, .inverse_temperature = 0.1f});
  ExpectDraw(logits, {.u = 0.7, .top_k = 1000, .top_p = 0.9f});
}

// Equal logits are drawn in the order of their ids.
TEST_P(SampleTest, TiesAreDrawnByTheirIds) {
  const Logits equal(3000, -0.0f);
  for (const int32_t id : {0, 1, 31, 1023, 1024, 2047, 2048, 2999}) {
    ExpectDraw(equal, {.u = (id + 0.5) / 3000});
    EXPECT_EQ(
        backend()
            .Sample({.logits = equal.data(), .n = 3000, .u = (id + 0.5) / 3000})
            ->id,
        id);
  }
  // Both zeros are one.
  const Logits zeros = {-0.0f, 0.0f, -0.0f, 0.0f};
  ExpectDraw(zeros, {.u = 0.3});
  // Among equal logits at the edge, the first ones stay.
  ExpectDraw(equal, {.u = 0.999999, .top_k = 100});
  ExpectDraw(equal, {.u = 0.999999, .top_p = 0.5f});
}

TEST_P(SampleTest, TheEndsOfTheUnitIntervalAreTheFirstAndTheLast) {
  RandomData random(4);
  const Logits logits = random.FloatsWithin(700, 3.0f);
  const Ids ids = InOrder(logits);
  const auto drawn = [&](double u) {
    return backend().Sample({.logits = logits.data(), .n = 700, .u = u})->id;
  };
  EXPECT_EQ(drawn(0), ids.front());
  EXPECT_EQ(drawn(std::nextafter(1.0, 0.0)), ids.back());
}

TEST_P(SampleTest, ExtremeLogitsAndTemperatures) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const Logits logits = {-kMax, kMax, 0, kMax, -1e30f};
  for (const float inverse : {1.0f, 1e-30f, kMax}) {
    const auto drawn = [&](double u) {
      return backend()
          .Sample({.logits = logits.data(),
                   .n = std::ssize(logits),
                   .u = u,
                   .inverse_temperature = inverse})
          ->id;
    };
    EXPECT_EQ(drawn(0.49), 1);
    EXPECT_EQ(drawn(0.51), 3);
  }
  ExpectDraw({5, 4.9999f, 4}, {.u = 0.9, .inverse_temperature = kMax});
}

TEST_P(SampleTest, WhatIsNotFiniteIsAnErrorOnlyWhereItIsAllowed) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    Logits logits(100, 1.0f);
    logits[70] = bad;
    EXPECT_EQ(StatusOf(logits, {}).code(), absl::StatusCode::kInternal);
    const std::vector<uint64_t> allowed = {~uint64_t{0}};  // 0 to 63
    EXPECT_TRUE(StatusOf(logits, {.allowed = allowed}).ok());
  }
  const std::vector<LogitChange> changes = {{.id = 3, .bias = 3e38f}};
  EXPECT_EQ(StatusOf(Logits(100, 3e38f), {.changes = changes}).code(),
            absl::StatusCode::kInternal);
}

TEST_P(SampleTest, NoAllowedTokenIsAnError) {
  const std::vector<uint64_t> allowed = {0, 0};
  const absl::Status status = StatusOf(Logits(100), {.allowed = allowed});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("no token is allowed"));
}

TEST_P(SampleTest, RefusesArgumentsPastTheirLimits) {
  const Logits logits(10);
  const auto code = [&](const SampleArgs& args) {
    return StatusOf(logits, args).code();
  };
  constexpr auto kOk = absl::StatusCode::kOk;
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code({.u = 0}), kOk);
  EXPECT_EQ(code({.u = std::nextafter(1.0, 0.0)}), kOk);
  for (const double u : {-0.1, 1.0, std::nan("")}) {
    EXPECT_EQ(code({.u = u}), kBad) << u;
  }
  EXPECT_EQ(code({.inverse_temperature = std::numeric_limits<float>::min()}),
            kOk);
  for (const float bad : {0.0f, -1.0f, HUGE_VALF, std::nanf("")}) {
    EXPECT_EQ(code({.inverse_temperature = bad}), kBad) << bad;
  }
  EXPECT_EQ(code({.top_k = 11}), kOk);
  EXPECT_EQ(code({.top_k = -1}), kBad);
  for (const float bad : {0.0f, 1.01f, std::nanf("")}) {
    EXPECT_EQ(code({.typical_p = bad}), kBad) << bad;
    EXPECT_EQ(code({.top_p = bad}), kBad) << bad;
  }
  for (const float bad : {-0.01f, 1.01f, std::nanf("")}) {
    EXPECT_EQ(code({.min_p = bad}), kBad) << bad;
  }
  for (const int32_t id : {-1, 10}) {
    const std::vector<LogitChange> changes = {{.id = id}};
    EXPECT_EQ(code({.changes = changes}), kBad) << id;
  }
  const std::vector<LogitChange> last = {{.id = 9}};
  EXPECT_EQ(code({.changes = last}), kOk);
  EXPECT_EQ(backend().Sample({.logits = logits.data(), .n = 0}).status().code(),
            kBad);
}

TEST_P(SampleTest, RowsHaveAtMost4194304Logits) {
  constexpr size_t kMost = size_t{1} << 22;
  Logits logits(kMost + 1, 0.0f);
  EXPECT_EQ(StatusOf(logits, {}).code(), absl::StatusCode::kResourceExhausted);
  logits.pop_back();
  // All of them together are the largest sum there is.
  const double u = 1 - 0.5 / static_cast<double>(kMost);
  const absl::StatusOr<SampledToken> token = backend().Sample(
      {.logits = logits.data(), .n = std::ssize(logits), .u = u});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->id, static_cast<int32_t>(kMost) - 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, SampleTest,
                         ::testing::ValuesIn(DeviceNames()), BackendTestName);

TEST(HostSampleTest, TheHostDrawsItself) {
  const float logit = 1;
  for (const std::string& name : BackendNames()) {
    if (IsCuda(name)) continue;
    const BackendUnderTest made = MakeBackend(name, 1);
    EXPECT_EQ(made.backend->Sample({.logits = &logit, .n = 1}).status().code(),
              absl::StatusCode::kUnimplemented)
        << name;
  }
}

}  // namespace
}  // namespace plimsoll::kernels
