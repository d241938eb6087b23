// Scales of rows: every row is multiplied by its own factor, and by nothing
// else.
#include <limits>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using ScaleRowsTest = BackendTest;

TEST_P(ScaleRowsTest, MultipliesEveryRowByItsFactor) {
  RandomData random(67);
  for (const int64_t n_rows : {1, 3, 40}) {
    for (const int64_t dim : {1, 31, 128, 577}) {
      const auto before = random.Floats(n_rows * dim, 4.0f);
      auto factors = random.Floats(n_rows, 4.0f);
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

}  // namespace
}  // namespace plimsoll::kernels
