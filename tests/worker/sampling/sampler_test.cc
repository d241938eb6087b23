// Draws against brute force: which tokens may be drawn, and how often.
#include "worker/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace plimsoll::worker {
namespace {

constexpr SamplingOptions kPlain = {
    .temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .seed = 1};

// The length of the largest row in these tests.
constexpr int64_t kBigVocab = 70'000;

std::vector<float> RandomLogits(uint32_t seed, size_t n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// Ids by descending logit, lowest id first among equals.
std::vector<int32_t> Order(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

// The distribution that the options ask for, straight from their definition:
// top-k, typical, top-p, min-p at temperature 1, each on what is left, then
// temperature.
std::map<int32_t, double> Expected(const std::vector<float>& logits,
                                   const SamplingOptions& options) {
  std::vector<int32_t> ids = Order(logits);
  if (options.top_k > 0 && ids.size() > static_cast<size_t>(options.top_k)) {
    ids.resize(static_cast<size_t>(options.top_k));
  }
  const auto weights = [&](double temperature) {
    std::vector<double> w;
    double total = 0;
    for (const int32_t id : ids) {
      w.push_back(std::exp(
          (static_cast<double>(logits[static_cast<size_t>(id)]) -
           static_cast<double>(logits[static_cast<size_t>(ids.front())])) /
          temperature));
      total += w.back();
    }
    for (double& value : w) value /= total;
    return w;
  };
  if (options.typical_p < 1.0f) {
    const std::vector<double> p = weights(1.0);
    double entropy = 0;
    for (const double one : p) entropy -= one * std::log(one);
    std::vector<size_t> order(ids.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::abs(-std::log(p[a]) - entropy) <
             std::abs(-std::log(p[b]) - entropy);
    });
    double sum = 0;
    std::set<int32_t> kept;
    for (const size_t i : order) {
      if (sum >= static_cast<double>(options.typical_p)) break;
      sum += p[i];
      kept.insert(ids[i]);
    }
    std::erase_if(ids, [&](int32_t id) { return kept.count(id) == 0; });
  }
  if (options.top_p < 1.0f) {
    const std::vector<double> p = weights(1.0);
    double sum = 0;
    size_t n = 0;
    while (n < ids.size() && sum < static_cast<double>(options.top_p)) {
      sum += p[n++];
    }
    ids.resize(n);
  }
  const std::vector<double> p = weights(1.0);
  size_t n = 0;
  while (n < ids.size() &&
         p[n] >= static_cast<double>(options.min_p) * p.front()) {
    ++n;
  }
  ids.resize(n);
  const std::vector<double> at_temperature =
      weights(static_cast<double>(options.temperature));
  std::map<int32_t, double> result;
  for (size_t i = 0; i < ids.size(); ++i) result[ids[i]] = at_temperature[i];
  return result;
}

// Draws `n` tokens and compares their counts with `expected`: nothing outside
// it, and chi-square below its mean + 6 standard deviations.
void ExpectDistribution(const std::vector<float>& logits,
                        const SamplingOptions& options, int n) {
  const std::map<int32_t, double> expected = Expected(logits, options);
  Sampler sampler(kBigVocab);
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    const auto id = sampler.Sample(logits, options, static_cast<uint64_t>(i));
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_EQ(expected.count(*id), 1u) << "token " << *id << " was cut off";
    ++counts[*id];
  }
  double chi_square = 0;
  for (const auto& [id, p] : expected) {
    const double mean = p * n;
    chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
  }
  const double freedom = static_cast<double>(expected.size()) - 1;
  EXPECT_LE(chi_square, freedom + 6 * std::sqrt(2 * freedom) + 1e-9);
}

TEST(SamplerTest, UniformNumbersAreThoseOfPhilox) {
  // The generator's published known answer for counter 0 and key 0:
  // 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  EXPECT_EQ(UniformAt(0, 0),
            static_cast<double>(0x6627e8d5e169c58dull >> 11) * 0x1.0p-53);
}

TEST(SamplerTest, UniformNumbersLieInTheUnitIntervalAndDiffer) {
  std::set<double> seen;
  double sum = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t index = 0; index < 1'000; ++index) {
      const double u = UniformAt(seed, index);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      sum += u;
      seen.insert(u);
    }
  }
  EXPECT_EQ(seen.size(), 10'000u);
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(SamplerTest, UniformNumbersUseAllBitsOfSeedAndIndex) {
  EXPECT_NE(UniformAt(1, 0), UniformAt(uint64_t{1} << 32, 0));
  EXPECT_NE(UniformAt(0, 1), UniformAt(0, uint64_t{1} << 32));
  EXPECT_NE(UniformAt(0, 1), UniformAt(1, 0));
}

TEST(SamplerTest, GreedyTakesTheLargestAndOfEqualsTheLowestId) {
  Sampler sampler(kBigVocab);
  SamplingOptions greedy = {.temperature = 0};
  EXPECT_EQ(*sampler.Sample(std::vector<float>{1, 3, 2, 3}, greedy, 0), 1);
  EXPECT_EQ(*sampler.Sample(std::vector<float>{-5, -5, -5}, greedy, 9), 0);
  EXPECT_EQ(*sampler.Sample(std::vector<float>{0}, greedy, 0), 0);
}

TEST(SamplerTest, ATokenDependsOnSeedAndIndexOnly) {
  const std::vector<float> logits = RandomLogits(3, 500);
  Sampler one(kBigVocab);
  Sampler other(kBigVocab);
  for (uint64_t i = 0; i < 50; ++i) (void)other.Sample(logits, kPlain, i * 7);
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(*one.Sample(logits, kPlain, i), *other.Sample(logits, kPlain, i));
  }
}

TEST(SamplerTest, DrawsFollowTheProbabilities) {
  const std::vector<float> logits = RandomLogits(11, 12);
  ExpectDistribution(logits, kPlain, 40'000);
}

TEST(SamplerTest, TemperatureFlattensAndSharpens) {
  const std::vector<float> logits = RandomLogits(12, 10);
  for (const float temperature : {0.3f, 2.5f}) {
    SamplingOptions options = kPlain;
    options.temperature = temperature;
    ExpectDistribution(logits, options, 40'000);
  }
}

TEST(SamplerTest, TruncationKeepsExactlyTheSetsOfBruteForce) {
  std::mt19937 random(5);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<float> logits = RandomLogits(seed, 8 + seed);
    SamplingOptions options = kPlain;
    options.seed = seed;
    options.top_k = static_cast<int32_t>(random() % 12);
    options.top_p = 0.3f + 0.1f * static_cast<float>(random() % 8);
    options.min_p = 0.05f * static_cast<float>(random() % 5);
    if (seed % 3 == 0) {
      options.typical_p = 0.2f + 0.1f * static_cast<float>(random() % 8);
    }
    options.temperature = 0.5f + 0.5f * static_cast<float>(random() % 4);
    ExpectDistribution(logits, options, 2'000);
  }
}

TEST(SamplerTest, TopPKeepsTheTokenThatCrossesIt) {
  // Probabilities 1/2, 1/4, 1/4.
  const std::vector<float> logits = {std::log(2.0f), 0, 0};
  SamplingOptions options = kPlain;
  options.top_p = 0.6f;
  ExpectDistribution(logits, options, 10'000);
  EXPECT_EQ(Expected(logits, options).size(), 2u);
  options.top_p = 0.4f;
  ExpectDistribution(logits, options, 100);
  EXPECT_EQ(Expected(logits, options).size(), 1u);
}

TEST(SamplerTest, TypicalDropsWhatIsTooSureAndWhatIsTooStrange) {
  // Probabilities 0.6, 8 x 0.04 and 8 x 0.01: a surprise of 0.5, 3.2 and 4.6,
  // 1.7 expected.
  std::vector<float> logits = {std::log(0.6f)};
  logits.insert(logits.end(), 8, std::log(0.04f));
  logits.insert(logits.end(), 8, std::log(0.01f));
  SamplingOptions options = kPlain;
  options.typical_p = 0.9f;
  EXPECT_EQ(Expected(logits, options).size(), 9u);
  ExpectDistribution(logits, options, 20'000);
  // Probabilities 0.4 and 600 x 0.001: the likely one goes.
  logits.assign(601, std::log(0.001f));
  logits[0] = std::log(0.4f);
  options.typical_p = 0.5f;
  EXPECT_EQ(Expected(logits, options).count(0), 0u);
  ExpectDistribution(logits, options, 2'000);
}

TEST(SamplerTest, SortedCandidatesGiveTheWholeRowsToken) {
  Sampler sampler(kBigVocab);
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::vector<float> logits = RandomLogits(seed, 300);
    logits[7] = logits[200];  // a tie
    std::vector<LogitEntry> sorted;
    for (const int32_t id : Order(logits)) {
      if (sorted.size() == 40) break;
      sorted.push_back({logits[static_cast<size_t>(id)], id});
    }
    for (const int32_t top_k : {1, 5, 40}) {
      SamplingOptions options = kPlain;
      options.top_k = top_k;
      options.top_p = 0.9f;
      options.min_p = 0.02f;
      options.seed = seed;
      for (uint64_t i = 0; i < 20; ++i) {
        EXPECT_EQ(sampler.SampleSorted(sorted, options, i),
                  *sampler.Sample(logits, options, i));
      }
    }
  }
}

double LogSumExp(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  return std::log(sum);
}

std::vector<LogitEntry> Largest(const std::vector<float>& logits, size_t n) {
  std::vector<LogitEntry> sorted;
  for (const int32_t id : Order(logits)) {
    if (sorted.size() == n) break;
    sorted.push_back({logits[static_cast<size_t>(id)], id});
  }
  return sorted;
}

// However little of a long row is put in order: the draw of one in order.
TEST(SamplerTest, LongRowsAreDrawnFromAsIfTheyWereInOrder) {
  Sampler sampler(kBigVocab);
  for (const size_t n : {255u, 256u, 257u, 4'095u, 4'097u, 70'000u}) {
    for (const float scale : {0.01f, 1.0f}) {
      std::vector<float> logits = RandomLogits(static_cast<uint32_t>(n), n);
      for (float& logit : logits) logit *= scale;
      const std::vector<LogitEntry> sorted = Largest(logits, n);
      SamplingOptions options = kPlain;
      // All are left, all but few, few, and one.
      for (const auto& [top_p, min_p] : std::vector<std::pair<float, float>>{
               {1.0f, 0.0f}, {0.999f, 0.0f}, {0.5f, 0.1f}, {0.01f, 0.0f}}) {
        for (const float temperature : {0.7f, 2.0f}) {
          options.temperature = temperature;
          options.top_p = top_p;
          options.min_p = min_p;
          for (uint64_t i = 0; i < 5; ++i) {
            EXPECT_EQ(sampler.Sample(logits, options, i).value(),
                      sampler.SampleSorted(sorted, options, i))
                << n << " " << scale << " " << top_p << " " << temperature;
          }
        }
      }
    }
  }
}

TEST(SamplerTest, LikeliestTokensGiveTheWholeRowsTokenOrNone) {
  Sampler sampler(kBigVocab);
  int64_t n_decided = 0;
  int64_t n_left_open = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::vector<float> logits = RandomLogits(seed, 2'000);
    const std::vector<LogitEntry> sorted = Largest(logits, 64);
    const double right = LogSumExp(logits);
    for (const float top_p : {0.05f, 0.3f, 0.5f, 0.9f, 1.0f}) {
      for (const float min_p : {0.0f, 0.05f, 0.3f, 1.0f}) {
        SamplingOptions options = kPlain;
        options.top_p = top_p;
        options.min_p = min_p;
        options.seed = seed;
        // A sum that is as wrong as it may be.
        const double wrong =
            right + (seed % 2 == 0 ? 0.9 : -0.9) * Sampler::kMassError;
        for (uint64_t i = 0; i < 10; ++i) {
          const auto id = sampler.SampleLikeliest(sorted, wrong, options, i);
          (id ? n_decided : n_left_open) += 1;
          if (!id) continue;
          EXPECT_EQ(*id, *sampler.Sample(logits, options, i));
        }
      }
    }
  }
  EXPECT_GT(n_decided, 5'000);
  EXPECT_GT(n_left_open, 1'000);
}

TEST(SamplerTest, LikeliestTokensLeaveOpenWhatOthersMayChange) {
  Sampler sampler(kBigVocab);
  // Two that are likely, and so many below them that the sum is known to.
  const std::vector<float> logits = {5, 5, 1, 1, 1, 1, 1, 1};
  const std::vector<LogitEntry> sorted = Largest(logits, 3);
  const double sum = LogSumExp(logits);
  const auto decides = [&](float top_p, float min_p) {
    SamplingOptions options = kPlain;
    options.top_p = top_p;
    options.min_p = min_p;
    return sampler.SampleLikeliest(sorted, sum, options, 0).has_value();
  };
  const double two = 2 * std::exp(5.0 - sum);
  // One at a time, as far as three of eight reach.
  EXPECT_TRUE(decides(0.1f, 0.0f));
  EXPECT_TRUE(decides(static_cast<float>(two * 0.999), 0.0f));
  EXPECT_FALSE(decides(static_cast<float>(two), 0.0f));  // one more or not?
  EXPECT_TRUE(decides(static_cast<float>(two * 1.001), 0.0f));  // the third
  EXPECT_FALSE(decides(0.99f, 0.0f));
  // What min_p drops cannot change it.
  EXPECT_TRUE(decides(static_cast<float>(two), 0.5f));
  EXPECT_TRUE(decides(0.99f, 0.5f));
  EXPECT_TRUE(decides(1.0f, 0.5f));
  EXPECT_FALSE(decides(1.0f, 0.01f));  // all others may be drawn
  // Nothing to decide by.
  EXPECT_FALSE(decides(1.0f, 0.0f));
  SamplingOptions typical = kPlain;
  typical.top_p = 0.1f;
  typical.typical_p = 0.5f;
  EXPECT_FALSE(sampler.SampleLikeliest(sorted, sum, typical, 0).has_value());
  SamplingOptions many = kPlain;
  many.top_p = 0.1f;
  many.top_k = 100;
  EXPECT_FALSE(sampler.SampleLikeliest(sorted, sum, many, 0).has_value());
}

TEST(SamplerTest, PlainDrawsAmongTheLikeliestGiveTheWholeRowsTokenOrNone) {
  Sampler sampler(kBigVocab);
  int64_t n_decided = 0;
  int64_t n_left_open = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::vector<float> logits = RandomLogits(seed, 2'000);
    const std::vector<LogitEntry> sorted = Largest(logits, 64);
    for (const float temperature : {0.1f, 0.5f, 1.0f, 3.0f, 100.0f}) {
      SamplingOptions options = kPlain;
      options.temperature = temperature;
      options.seed = seed;
      double right = 0;
      for (const float logit : logits) {
        right += std::exp((double{logit} - double{sorted.front().logit}) /
                          double{temperature});
      }
      // A sum that is as wrong as it may be.
      const double wrong =
          right * (1 + (seed % 2 == 0 ? 0.9 : -0.9) * Sampler::kMassError);
      for (uint64_t i = 0; i < 40; ++i) {
        const auto id = Sampler::SamplePlain(sorted, wrong, options, i);
        (id ? n_decided : n_left_open) += 1;
        if (!id) continue;
        EXPECT_EQ(*id, *sampler.Sample(logits, options, i));
      }
    }
  }
  EXPECT_GT(n_decided, 5'000);
  EXPECT_GT(n_left_open, 1'000);
}

TEST(SamplerTest, PlainDrawsAreLeftOpenAtTheBorderOfTwo) {
  // Two of weight 1, of as much as there may be.
  const std::vector<LogitEntry> sorted = {{0, 3}, {0, 5}};
  const auto drawn = [&](double mass) {
    return Sampler::SamplePlain(sorted, mass, kPlain, 0);
  };
  const double u = UniformAt(kPlain.seed, 0);
  EXPECT_EQ(drawn(0.5 / u), 3);
  EXPECT_EQ(drawn(0.999 / u), 3);
  EXPECT_EQ(drawn(0.99995 / u), std::nullopt);
  EXPECT_EQ(drawn(1.00005 / u), std::nullopt);
  EXPECT_EQ(drawn(1.001 / u), 5);
  EXPECT_EQ(drawn(1.999 / u), 5);
  EXPECT_EQ(drawn(1.99995 / u), std::nullopt);
  EXPECT_EQ(drawn(2.5 / u), std::nullopt);
}

TEST(SamplerTest, RefusesLogitsThatAreNotFinite) {
  Sampler sampler(kBigVocab);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const float temperature : {0.0f, 1.0f}) {
      SamplingOptions options = kPlain;
      options.temperature = temperature;
      const auto token =
          sampler.Sample(std::vector<float>{0, 1, bad, 2}, options, 0);
      EXPECT_EQ(token.status().code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(token.status().message()),
                  ::testing::HasSubstr("non-finite"));
    }
  }
}

TEST(SamplerTest, SurvivesExtremeLogits) {
  Sampler sampler(kBigVocab);
  SamplingOptions options = kPlain;
  options.temperature = 0.001f;
  const std::vector<float> logits = {-3e38f, 3e38f, 0};
  EXPECT_EQ(*sampler.Sample(logits, options, 0), 1);
  options.temperature = SamplingOptions::kMaxTemperature;
  EXPECT_EQ(*sampler.Sample(logits, options, 0), 1);
}

struct Limit {
  const char* field;
  SamplingOptions options;
  bool is_valid;
};

TEST(SamplerTest, OptionsAreCheckedAtTheirLimits) {
  const float above_max =
      std::nextafter(SamplingOptions::kMaxTemperature, 1e9f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Limit> limits = {
      {"temperature", {.temperature = 0}, true},
      {"temperature", {.temperature = SamplingOptions::kMaxTemperature}, true},
      {"temperature", {.temperature = above_max}, false},
      {"temperature", {.temperature = -0.001f}, false},
      {"temperature", {.temperature = nan}, false},
      {"top_k", {.top_k = 0}, true},
      {"top_k", {.top_k = std::numeric_limits<int32_t>::max()}, true},
      {"top_k", {.top_k = -1}, false},
      {"top_p", {.top_p = 1}, true},
      {"top_p", {.top_p = std::nextafter(1.0f, 2.0f)}, false},
      {"top_p", {.top_p = std::numeric_limits<float>::denorm_min()}, true},
      {"top_p", {.top_p = 0}, false},
      {"top_p", {.top_p = nan}, false},
      {"typical_p", {.typical_p = 1}, true},
      {"typical_p", {.typical_p = std::nextafter(1.0f, 2.0f)}, false},
      {"typical_p", {.typical_p = 0}, false},
      {"typical_p", {.typical_p = nan}, false},
      {"min_p", {.min_p = 0}, true},
      {"min_p", {.min_p = 1}, true},
      {"min_p", {.min_p = std::nextafter(1.0f, 2.0f)}, false},
      {"min_p", {.min_p = -0.001f}, false},
      {"min_p", {.min_p = nan}, false},
  };
  for (const Limit& limit : limits) {
    const absl::Status status = ValidateSampling(limit.options);
    EXPECT_EQ(status.ok(), limit.is_valid) << limit.field << ": " << status;
    if (!limit.is_valid) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  ::testing::HasSubstr(limit.field));
    }
  }
}

TEST(SamplerTest, OfAllowedTokensTheDrawIsAsIfThereWereNoOthers) {
  Sampler sampler(kBigVocab);
  const std::vector<float> logits = RandomLogits(4, 200);
  std::vector<uint64_t> allowed(4, 0);
  std::vector<float> kept;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); i += 1 + i % 3) {
    allowed[i / 64] |= uint64_t{1} << (i % 64);
    kept.push_back(logits[i]);
    ids.push_back(static_cast<int32_t>(i));
  }
  for (const int32_t top_k : {0, 5, 100}) {
    for (const float temperature : {0.0f, 1.0f}) {
      SamplingOptions options = kPlain;
      options.top_k = top_k;
      options.temperature = temperature;
      for (uint64_t i = 0; i < 50; ++i) {
        const auto drawn = sampler.SampleAllowed(logits, allowed, options, i);
        ASSERT_TRUE(drawn.ok());
        const auto expected = sampler.Sample(kept, options, i);
        EXPECT_EQ(*drawn, ids[static_cast<size_t>(*expected)]);
      }
    }
  }
}

TEST(SamplerTest, WithoutAnAllowedTokenThereIsNoDraw) {
  Sampler sampler(kBigVocab);
  const std::vector<uint64_t> none(1, 0);
  EXPECT_EQ(sampler.SampleAllowed(RandomLogits(1, 64), none, kPlain, 0)
                .status()
                .code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace plimsoll::worker
