// Hadamard transforms: the reference has the sums that define them, the others
// the reference's within float32's rounding.
#include "kernels/hadamard.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

class HadamardTest : public BackendTest {
 protected:
  std::vector<float> Transformed(std::vector<float> x, int64_t dim,
                                 int64_t width) {
    const auto n = static_cast<int64_t>(x.size());
    EXPECT_TRUE(backend().Hadamard({x.data(), n / dim, dim, width}).ok());
    EXPECT_TRUE(backend().Synchronize().ok());
    return x;
  }
};

TEST_P(HadamardTest, TransformsEveryWidthOfEveryRow) {
  RandomData random(71);
  for (const int64_t width : {32, 64, 128, 256, 512}) {
    for (const int64_t n_rows : {1, 3, 30}) {
      const int64_t dim = 3 * width;
      const auto x = random.FloatsWithin(n_rows * dim, 4.0f);
      const auto y = Transformed(x, dim, width);
      // Each of the sum's log2(width) additions rounds sums of up to
      // 4 * sqrt(width) after the scale.
      const double tolerance =
          4 * std::sqrt(static_cast<double>(width)) * 10 * 0x1p-24;
      for (int64_t at = 0; at < n_rows * dim; at += width) {
        for (int64_t i = 0; i < width; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < width; ++j) {
            const bool is_odd =
                std::popcount(static_cast<uint64_t>(i & j)) % 2 != 0;
            const double value = x[static_cast<size_t>(at + j)];
            sum += is_odd ? -value : value;
          }
          ASSERT_NEAR(y[static_cast<size_t>(at + i)],
                      sum / std::sqrt(static_cast<double>(width)), tolerance)
              << width << " wide, " << at << " + " << i;
        }
      }
    }
  }
}

TEST_P(HadamardTest, IsItsOwnInverse) {
  RandomData random(72);
  for (const int64_t width : {32, 128, 512}) {
    const auto x = random.FloatsWithin(2 * width, 4.0f);
    const auto back =
        Transformed(Transformed(x, 2 * width, width), 2 * width, width);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(back[i], x[i], 1e-4) << width << " wide, at " << i;
    }
  }
}

TEST_P(HadamardTest, ARowHasTheSameBitsAloneAndAmongOthers) {
  RandomData random(73);
  constexpr int64_t kDim = 256;
  const auto x = random.FloatsWithin(200 * kDim, 4.0f);
  const auto all = Transformed(x, kDim, 64);
  for (const int64_t row : {0, 1, 77, 199}) {
    const auto begin = x.begin() + row * kDim;
    const auto alone =
        Transformed(std::vector<float>(begin, begin + kDim), kDim, 64);
    const auto among = all.begin() + row * kDim;
    EXPECT_EQ(Bits(alone), Bits(std::vector<float>(among, among + kDim)));
  }
}

TEST_P(HadamardTest, WhatIsNotFiniteStaysInItsTransform) {
  std::vector<float> x(96, 1.0f);
  x[40] = std::numeric_limits<float>::infinity();
  const auto y = Transformed(x, 96, 32);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::isfinite(y[i]), i / 32 != 1) << i;
  }
}

TEST_P(HadamardTest, RefusesOtherWidths) {
  std::vector<float> x(1024);
  const auto code = [&](int64_t dim, int64_t width) {
    return backend().Hadamard({x.data(), 1, dim, width}).code();
  };
  EXPECT_EQ(code(1024, 512), absl::StatusCode::kOk);
  for (const int64_t width : {0, 16, 48, 1024}) {
    EXPECT_EQ(code(1024, width), absl::StatusCode::kInvalidArgument) << width;
  }
  EXPECT_EQ(code(96, 64), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(backend().Hadamard({nullptr, 0, 64, 64}).ok());
}

TEST(HadamardWidthTest, IsTheLargestPowerOfTwoThatDividesAHead) {
  EXPECT_EQ(HadamardWidth(64), 64);
  EXPECT_EQ(HadamardWidth(96), 32);
  EXPECT_EQ(HadamardWidth(192), 64);
  EXPECT_EQ(HadamardWidth(256), 256);
}

INSTANTIATE_TEST_SUITE_P(Backends, HadamardTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
