// Candidates and the sums of exponentials of whole rows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using TopKTest = BackendTest;

struct Result {
  std::vector<float> values;
  std::vector<int32_t> ids;
  std::vector<double> log_sum_exp;
};

Result LargestOf(Backend& backend, const std::vector<float>& logits,
                 int64_t n_rows, int64_t k) {
  const int64_t n = static_cast<int64_t>(logits.size()) / n_rows;
  Result result;
  result.values.resize(static_cast<size_t>(n_rows * k));
  result.ids.resize(static_cast<size_t>(n_rows * k));
  result.log_sum_exp.resize(static_cast<size_t>(n_rows));
  EXPECT_TRUE(backend
                  .TopK({logits.data(), n_rows, n, k, result.values.data(),
                         result.ids.data(), result.log_sum_exp.data()})
                  .ok());
  return result;
}

std::vector<int32_t> LargestIds(const float* x, int64_t n, int64_t k) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return x[a] > x[b]; });
  ids.resize(static_cast<size_t>(k));
  return ids;
}

TEST_P(TopKTest, ListsTheLargestInOrderWithTiesByLowestId) {
  RandomData random(10);
  for (const int64_t n : {1, 2, 63, 64, 65, 1000, 4096, 4097, 50021, 300007}) {
    auto logits = random.FloatsWithin(2 * n, 20.0f);
    // A coarse grid makes ties.
    for (float& value : logits) value = std::round(value * 4) / 4;
    const int64_t k = std::min<int64_t>(n, kMaxCandidates);
    const Result result = LargestOf(backend(), logits, 2, k);
    for (int64_t row = 0; row < 2; ++row) {
      const float* x = logits.data() + row * n;
      EXPECT_EQ(std::vector<int32_t>(result.ids.begin() + row * k,
                                     result.ids.begin() + (row + 1) * k),
                LargestIds(x, n, k))
          << n;
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(double{x[i]} - 20.0);
      // Exponentials in float32 (2 ulp each) of values of either sign.
      EXPECT_NEAR(result.log_sum_exp[static_cast<size_t>(row)],
                  20.0 + std::log(sum), 2e-6)
          << n;
    }
  }
}

// Rows whose largest logits lie together, in every way in which a device may
// share out a row, or are all equal.
TEST_P(TopKTest, TheLargestMayLieAnywhere) {
  constexpr int64_t kLogits = 150'001;
  const std::vector<std::function<int64_t(int64_t)>> orders = {
      [](int64_t i) { return i; },
      [](int64_t i) { return -i; },
      [](int64_t) { return 7; },
      [](int64_t i) { return -i / 2048; },
      [](int64_t i) { return -i / 300; },
      [](int64_t i) { return -(i % 2048) * 1000 - i / 2048; },
      [](int64_t i) { return -(i % 256) * 1000 + i / 256; },
      [](int64_t i) { return i % 2048 < 70 ? -i / 2048 : -1000 - i; },
      [](int64_t i) { return i % 997 == 0 ? i : -i; },
      [](int64_t i) { return i == 149'999 ? 1 : 0; },
  };
  std::vector<float> logits;
  for (const auto& order : orders) {
    for (int64_t i = 0; i < kLogits; ++i) {
      logits.push_back(static_cast<float>(order(i)));
    }
  }
  const Result result = LargestOf(backend(), logits, std::ssize(orders), 64);
  for (int64_t row = 0; row < std::ssize(orders); ++row) {
    EXPECT_EQ(std::vector<int32_t>(result.ids.begin() + row * 64,
                                   result.ids.begin() + (row + 1) * 64),
              LargestIds(logits.data() + row * kLogits, kLogits, 64))
        << row;
  }
}

TEST_P(TopKTest, OtherRowsChangeNoBit) {
  constexpr int64_t kRows = 600;
  constexpr int64_t kLogits = 130;
  RandomData random(14);
  const auto logits = random.FloatsWithin(kRows * kLogits, 12.0f);
  const Result all = LargestOf(backend(), logits, kRows, 64);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto first = logits.begin() + row * kLogits;
    const Result one =
        LargestOf(backend(), std::vector<float>(first, first + kLogits), 1, 64);
    EXPECT_EQ(one.log_sum_exp[0], all.log_sum_exp[static_cast<size_t>(row)]);
    EXPECT_TRUE(
        std::equal(one.ids.begin(), one.ids.end(), all.ids.begin() + row * 64));
    EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(),
                           all.values.begin() + row * 64));
  }
}

// The mass of each row at the row's own inverse temperature.
std::vector<double> MassesOf(Backend& backend, const std::vector<float>& logits,
                             const std::vector<float>& inverse) {
  const auto n_rows = static_cast<int64_t>(inverse.size());
  const auto n = static_cast<int64_t>(logits.size()) / n_rows;
  std::vector<float> values(inverse.size());
  std::vector<int32_t> ids(inverse.size());
  std::vector<double> log_sum_exp(inverse.size());
  std::vector<double> masses(inverse.size());
  EXPECT_TRUE(backend
                  .TopK({.logits = logits.data(),
                         .n_rows = n_rows,
                         .n = n,
                         .k = 1,
                         .values = values.data(),
                         .ids = ids.data(),
                         .log_sum_exp = log_sum_exp.data(),
                         .inverse_temperatures = inverse.data(),
                         .masses = masses.data()})
                  .ok());
  return masses;
}

// Far nearer than the 1e-4 by which draws allow it to be wrong: exponentials in
// float32, of differences that are rounded twice, 2^-24 each of up to 25 where
// a term counts.
TEST_P(TopKTest, MassesAreThoseAtEachRowsTemperature) {
  RandomData random(13);
  std::vector<float> inverse;
  for (const float temperature :
       {0.1f, 0.5f, 0.8f, 1.0f, 1.5f, 10.0f, 100.0f}) {
    inverse.push_back(1.0f / temperature);
  }
  for (const int64_t n : {1, 2, 65, 4097, 50021}) {
    const auto logits =
        random.FloatsWithin(n * static_cast<int64_t>(inverse.size()), 20.0f);
    const std::vector<double> masses = MassesOf(backend(), logits, inverse);
    for (size_t row = 0; row < inverse.size(); ++row) {
      const float* x = logits.data() + static_cast<int64_t>(row) * n;
      const double max = double{*std::max_element(x, x + n)};
      double mass = 0;
      for (int64_t i = 0; i < n; ++i) {
        mass += std::exp((double{x[i]} - max) * double{inverse[row]});
      }
      EXPECT_NEAR(masses[row] / mass, 1.0, 4e-6) << n << " " << row;
    }
  }
}

TEST_P(TopKTest, MassesOfExtremeRowsAreThoseOfTheirLargest) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> logits = {-kMax, kMax, 0, kMax,   //
                                     -kMax, 0,    0, -kMax,  //
                                     5,     4,    5, 5};
  EXPECT_THAT(MassesOf(backend(), logits, {1.0f, 0.01f, kMax}),
              ::testing::ElementsAre(2, 2, 3));
  std::vector<float> bad = logits;
  bad[5] = std::nanf("");
  const std::vector<double> masses =
      MassesOf(backend(), bad, {0.5f, 0.5f, 0.5f});
  EXPECT_FALSE(std::isnan(masses[0]));
  EXPECT_TRUE(std::isnan(masses[1]));
  EXPECT_FALSE(std::isnan(masses[2]));
}

TEST_P(TopKTest, TakesTemperaturesAndMassesTogetherAndPositive) {
  const std::vector<float> logits(10);
  float value = 0;
  int32_t id = 0;
  double sum = 0;
  double mass = 0;
  const auto code = [&](const float* inverse, double* masses) {
    return backend()
        .TopK({logits.data(), 1, 10, 1, &value, &id, &sum, inverse, masses})
        .code();
  };
  for (const float bad : {0.0f, -1.0f, HUGE_VALF, std::nanf("")}) {
    EXPECT_EQ(code(&bad, &mass), absl::StatusCode::kInvalidArgument) << bad;
  }
  const float one = 1.0f;
  EXPECT_EQ(code(&one, nullptr), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(nullptr, &mass), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(&one, &mass), absl::StatusCode::kOk);
  EXPECT_EQ(mass, 10);
}

TEST_P(TopKTest, AscendingAndDescendingRowsAreHandled) {
  std::vector<float> logits(20000);
  std::iota(logits.begin(), logits.end(), -10000.0f);
  EXPECT_THAT(LargestOf(backend(), logits, 1, 3).ids,
              ::testing::ElementsAre(19999, 19998, 19997));
  std::reverse(logits.begin(), logits.end());
  EXPECT_THAT(LargestOf(backend(), logits, 1, 3).ids,
              ::testing::ElementsAre(0, 1, 2));
}

TEST_P(TopKTest, AnyValueThatIsNotFiniteGivesNan) {
  RandomData random(11);
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const size_t at : {size_t{0}, size_t{77}, size_t{9999}}) {
      auto logits = random.Floats(20000);
      logits[at] = bad;
      const Result result = LargestOf(backend(), logits, 2, 10);
      EXPECT_TRUE(std::isnan(result.log_sum_exp[0]));
      EXPECT_TRUE(std::isfinite(result.log_sum_exp[1]));
      for (const int32_t id : result.ids) {
        EXPECT_GE(id, 0);
        EXPECT_LT(id, 10000);
      }
    }
  }
}

TEST_P(TopKTest, TheThreadCountChangesNoBit) {
  RandomData random(12);
  const auto logits = random.FloatsWithin(262144, 12.0f);
  std::vector<double> sums;
  std::vector<std::vector<int32_t>> ids;
  for (const int n_threads : {1, 2, 3}) {
    const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
    const Result result = LargestOf(*made.backend, logits, 1, 10);
    sums.push_back(result.log_sum_exp[0]);
    ids.push_back(result.ids);
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
}

TEST_P(TopKTest, RefusesMoreCandidatesThanTheLimitOrTheRow) {
  const std::vector<float> logits(100);
  std::vector<float> values(100);
  std::vector<int32_t> ids(100);
  double sum;
  for (const auto& [n, k] : {std::pair{100, 0}, {100, 65}, {10, 11}}) {
    EXPECT_EQ(
        backend()
            .TopK({logits.data(), 1, n, k, values.data(), ids.data(), &sum})
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(
      backend()
          .TopK({logits.data(), 1, 100, 64, values.data(), ids.data(), &sum})
          .ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, TopKTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
