// Products whose outputs saturate: cap * tanh(output / cap), whatever the type
// of the weights, and the same bits in any batch.
#include <cmath>
#include <limits>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kRows = 333;  // no whole number of vectors
constexpr int64_t kCols = 64;

class SoftCapTest : public BackendTest {
 protected:
  std::vector<float> Product(const StoredMatrix& w, const std::vector<float>& x,
                             bool is_packed, float soft_cap) {
    const auto n_rows = static_cast<int64_t>(x.size()) / kCols;
    std::vector<std::byte> packed(
        static_cast<size_t>(n_rows * PackedRowBytes(kCols)));
    EXPECT_TRUE(backend()
                    .PackActivations({x.data(), n_rows, kCols, packed.data()})
                    .ok());
    std::vector<float> out(static_cast<size_t>(n_rows * kRows));
    const absl::Status status =
        backend().MatMul({.w = w.view,
                          .x = x.data(),
                          .packed = is_packed ? packed.data() : nullptr,
                          .out = out.data(),
                          .n_rows = n_rows,
                          .accumulate = false,
                          .soft_cap = soft_cap});
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(backend().Synchronize().ok());
    return out;
  }
};

TEST_P(SoftCapTest, OutputsSaturate) {
  RandomData random(71);
  for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
    const auto w = Store(backend(), dtype, kRows, kCols,
                         random.Weights(dtype, kRows, kCols));
    for (const bool is_packed : {false, true}) {
      const auto x = random.FloatsWithin(3 * kCols, 8.0f);
      const auto free = Product(w, x, is_packed, 0);
      for (const float cap : {0.01f, 1.0f, 30.0f, 1e6f}) {
        const auto capped = Product(w, x, is_packed, cap);
        for (size_t i = 0; i < free.size(); ++i) {
          const double wanted =
              cap * std::tanh(static_cast<double>(free[i]) / cap);
          // Some roundings in float32 of the output and of what tanh gives.
          EXPECT_NEAR(capped[i], wanted,
                      0x1p-20 * (std::abs(wanted) + 0x1p-10 * cap))
              << DTypeName(dtype) << " capped at " << cap << ", output " << i;
        }
      }
    }
  }
}

TEST_P(SoftCapTest, ARowHasTheSameBitsInAnyBatch) {
  RandomData random(72);
  const auto w = Store(backend(), DType::kF32, kRows, kCols,
                       random.Weights(DType::kF32, kRows, kCols));
  const auto x = random.FloatsWithin(17 * kCols, 8.0f);
  const auto together = Product(w, x, false, 3);
  for (int64_t r = 0; r < 17; ++r) {
    const std::vector<float> row(x.begin() + r * kCols,
                                 x.begin() + (r + 1) * kCols);
    ASSERT_EQ(Bits(Product(w, row, false, 3)),
              Bits(together.data() + r * kRows, kRows));
  }
}

TEST_P(SoftCapTest, CapsThatMakeNoSenseAreRefused) {
  RandomData random(73);
  const auto w = Store(backend(), DType::kF32, 32, kCols,
                       random.Weights(DType::kF32, 32, kCols));
  const auto x = random.Floats(kCols);
  std::vector<float> out(32);
  const auto code_of = [&](float cap, bool accumulate) {
    return backend()
        .MatMul({.w = w.view,
                 .x = x.data(),
                 .packed = nullptr,
                 .out = out.data(),
                 .n_rows = 1,
                 .accumulate = accumulate,
                 .soft_cap = cap})
        .code();
  };
  for (const float cap :
       {-1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(code_of(cap, false), absl::StatusCode::kInvalidArgument) << cap;
  }
  EXPECT_EQ(code_of(1, true), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(1, false), absl::StatusCode::kOk);
}

INSTANTIATE_TEST_SUITE_P(Paths, SoftCapTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
