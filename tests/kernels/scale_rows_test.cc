// Scales and cuts of rows: every row is multiplied by its own factor, or keeps
// what is above its mean by some standard deviations.
#include <cmath>
#include <limits>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using ScaleRowsTest = BackendTest;

TEST_P(ScaleRowsTest, MultipliesEveryRowByItsFactor) {
  RandomData random(67);
  for (const int64_t n_rows : {1, 3, 40}) {
    for (const int64_t dim : {1, 31, 128, 577}) {
      const auto before = random.FloatsWithin(n_rows * dim, 4.0f);
      auto factors = random.FloatsWithin(n_rows, 4.0f);
      auto x = before;
      ASSERT_TRUE(
          backend().ScaleRows({x.data(), factors.data(), n_rows, dim}).ok());
      const auto given = factors;
      // The caller's factors are free after the operation.
      std::ranges::fill(factors, 0.0f);
      ASSERT_TRUE(backend().Synchronize().ok());
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(x[i], before[i] * given[i / static_cast<size_t>(dim)])
            << n_rows << " rows of " << dim << ", element " << i;
      }
    }
  }
}

TEST_P(ScaleRowsTest, AFactorThatIsNotFiniteIsRefused) {
  std::vector<float> x(4, 1.0f);
  for (const float factor : {std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> factors = {1.0f, factor};
    EXPECT_EQ(backend().ScaleRows({x.data(), factors.data(), 2, 2}).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(backend().ScaleRows({x.data(), nullptr, 0, 2}).ok());
}

INSTANTIATE_TEST_SUITE_P(Paths, ScaleRowsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

using CutRowsTest = BackendTest;

TEST_P(CutRowsTest, KeepsWhatIsAboveTheRowsCut) {
  RandomData random(71);
  for (const int64_t dim : {1, 3, 31, 128, 577, 2'048}) {
    for (const float deviations : {-1.5f, 0.0f, 1.6448534f}) {
      const auto before = random.FloatsWithin(3 * dim, 4.0f);
      auto x = before;
      ASSERT_TRUE(backend().CutRows({x.data(), 3, dim, deviations}).ok());
      const auto n = static_cast<size_t>(dim);
      for (size_t row = 0; row < 3; ++row) {
        const float* given = before.data() + row * n;
        double mean = 0;
        double squares = 0;
        for (size_t c = 0; c < n; ++c)
          mean += given[c] / static_cast<double>(n);
        for (size_t c = 0; c < n; ++c) {
          squares += (given[c] - mean) * (given[c] - mean);
        }
        const double cut =
            mean + deviations * std::sqrt(squares / static_cast<double>(n));
        // Values are at most 4. A sum of dim terms may be off by some 2^-24 of
        // each.
        const double error = 16 * 0x1p-24 * (4 + static_cast<double>(dim) / 32);
        for (size_t c = 0; c < n; ++c) {
          EXPECT_NEAR(x[row * n + c], std::max(given[c] - cut, 0.0), error)
              << dim << " elements, " << deviations << " deviations";
        }
      }
    }
  }
}

TEST_P(CutRowsTest, RowsAreIndependent) {
  RandomData random(72);
  constexpr int64_t kDim = 577;
  const auto before = random.FloatsWithin(40 * kDim, 4.0f);
  auto together = before;
  ASSERT_TRUE(backend().CutRows({together.data(), 40, kDim, 1}).ok());
  for (int64_t r = 0; r < 40; ++r) {
    std::vector<float> alone(before.begin() + r * kDim,
                             before.begin() + (r + 1) * kDim);
    ASSERT_TRUE(backend().CutRows({alone.data(), 1, kDim, 1}).ok());
    ASSERT_EQ(Bits(together.data() + r * kDim, kDim), Bits(alone));
  }
}

TEST_P(CutRowsTest, NaNStays) {
  std::vector<float> x(65, 1.0f);
  x[7] = std::nanf("");
  ASSERT_TRUE(backend().CutRows({x.data(), 1, 65, 1}).ok());
  for (const float value : x) EXPECT_TRUE(std::isnan(value));
}

TEST_P(CutRowsTest, ACutThatIsNotFiniteIsRefused) {
  std::vector<float> x(4, 1.0f);
  for (const float deviations : {-std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(backend().CutRows({x.data(), 2, 2, deviations}).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(backend().CutRows({x.data(), 0, 2, 1}).ok());
}

INSTANTIATE_TEST_SUITE_P(Paths, CutRowsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
