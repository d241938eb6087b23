// Products of many rows (mat_mul_many.cc): the bits of those of few at every
// limit of their own, and past it.
#include "base/checked_math.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/cpu/target.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

// Has no such products.
constexpr char kPlainPath[] = "AVX3";
constexpr int64_t kManyRows = cpu::kMinManyRows;

class MatMulManyTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto names = AvailableCpuTargets();
    if (std::find(names.begin(), names.end(), GetParam()) == names.end()) {
      GTEST_SKIP() << "this CPU has no AVX-512 with VNNI";
    }
  }
  void TearDown() override { ASSERT_TRUE(SetCpuTarget("").ok()); }

  // The product on a path, added to `out`'s outputs if `accumulate`.
  static std::vector<float> Product(const char* path, const WeightMatrix& w,
                                    const std::vector<float>& x, int64_t n_rows,
                                    bool accumulate) {
    const auto made = MakeBackend(path, 3);
    std::vector<std::byte> packed(
        static_cast<size_t>(n_rows * PackedRowBytes(w.cols)));
    EXPECT_TRUE(
        made.backend->PackActivations({x.data(), n_rows, w.cols, packed.data()})
            .ok());
    std::vector<float> out(static_cast<size_t>(n_rows * w.rows), 0.5f);
    EXPECT_TRUE(made.backend
                    ->MatMul({w, x.data(), packed.data(), out.data(), n_rows,
                              accumulate})
                    .ok());
    return out;
  }

  static void ExpectSame(const WeightMatrix& w, const std::vector<float>& x,
                         int64_t n_rows, bool accumulate) {
    EXPECT_EQ(Bits(Product(GetParam(), w, x, n_rows, accumulate)),
              Bits(Product(kPlainPath, w, x, n_rows, accumulate)))
        << DTypeName(w.dtype) << ", " << n_rows << " rows, " << w.rows
        << " outputs, " << w.cols << " columns";
  }

  static void ExpectSame(DType dtype, int64_t n_rows, int64_t outputs,
                         int64_t cols, bool accumulate) {
    RandomData random(31);
    const auto made = MakeBackend(kPlainPath, 1);
    const auto stored = Store(*made.backend, dtype, outputs, cols,
                              random.Weights(dtype, outputs, cols));
    ExpectSame(stored.view, random.FloatsWithin(n_rows * cols, 3.0f), n_rows,
               accumulate);
  }
};

TEST(RowGroupsTest, EveryRowIsInOneOfTheFewestGroups) {
  for (int64_t n_rows = 1; n_rows < 400; ++n_rows) {
    const cpu::RowGroups groups(n_rows);
    EXPECT_EQ(groups.n(), CeilDiv(n_rows, cpu::kGroupRows));
    int64_t row = 0;
    for (int64_t g = 0; g < groups.n(); ++g) {
      EXPECT_EQ(groups.RowAt(g), row);
      EXPECT_LE(groups.RowsOf(g), cpu::kGroupRows);
      EXPECT_GE(groups.RowsOf(g), n_rows / groups.n());
      // What MatMulMany has register blocks for.
      if (n_rows >= cpu::kMinManyRows) {
        EXPECT_GE(groups.RowsOf(g), 4);
      }
      for (int64_t m = 0; m < groups.RowsOf(g); ++m) {
        EXPECT_EQ(groups.GroupOf(row++), g) << n_rows << " rows";
      }
    }
    EXPECT_EQ(row, n_rows);
    EXPECT_EQ(groups.RowAt(groups.n()), n_rows);
  }
}

TEST_P(MatMulManyTest, HaveTheBitsOfPlainProductsInEveryType) {
  for (const DType dtype : WeightTypes()) {
    if (InfoOf(dtype).block_elems == 1) continue;
    for (const bool accumulate : {false, true}) {
      ExpectSame(dtype, 40, 50, 512, accumulate);
    }
  }
}

TEST_P(MatMulManyTest, HaveTheBitsOfPlainProductsAtTheirOwnLimits) {
  // The fewest rows, register blocks of every size, tiles.
  for (const int64_t n_rows : {7,  8,  9,  10, 11, 12,  13,  14,  15,  16, 17,
                               18, 19, 23, 24, 25, 173, 174, 175, 348, 349}) {
    ExpectSame(DType::kQ4_0, n_rows, 32, 64, false);
  }
  // A panel alone, pairs of panels, ranges of sixteen.
  for (const int64_t outputs : {1, 16, 17, 32, 33, 256, 257, 512 + 16}) {
    ExpectSame(DType::kQ8_0, kManyRows, outputs, 64, true);
  }
  // Blocks, chunks of eight, and slabs: the fewest rows have the longest ones,
  // of 344 blocks, a whole tile of rows those of 24.
  for (const int64_t blocks : {1, 7, 8, 9, 32, 343, 344, 345}) {
    ExpectSame(DType::kQ5_1, kManyRows, 32, 32 * blocks, false);
  }
  for (const int64_t blocks : {23, 24, 25, 48, 49}) {
    ExpectSame(DType::kQ5_1, 174, 32, 32 * blocks, false);
  }
}

// Quants of -128 and activations at both ends: sums of the two are the largest
// there are, and so are cross products.
TEST_P(MatMulManyTest, ExtremesDoNotOverflow) {
  constexpr int64_t kCols = 64;
  constexpr int64_t kRows = 32;
  const auto made = MakeBackend(kPlainPath, 1);
  std::vector<std::byte> bytes(16 * 68, std::byte{0x80});
  const uint16_t one = F16FromF32(1.0f);
  for (size_t b = 0; b < 32; ++b) std::memcpy(&bytes[b * 34], &one, 2);
  const auto stored = Store(*made.backend, DType::kQ8_0, 16, kCols, bytes);
  std::vector<float> x(kRows * kCols, -3.0f);
  std::fill_n(x.begin(), kRows / 2 * kCols, 3.0f);
  for (size_t i = 0; i < kCols; ++i) x[i] = i % 3 == 0 ? 3.0f : -3.0f;
  ExpectSame(stored.view, x, kRows, false);
  const auto out = Product(GetParam(), stored.view, x, kRows, false);
  for (size_t i = 16; i < out.size(); ++i) {
    const double expected = (i < 256 ? -128.0 : 128.0) * 3.0 * kCols;
    EXPECT_NEAR(out[i], expected, std::abs(expected) * 1e-6);
  }
}

TEST_P(MatMulManyTest, ANonFiniteActivationShows) {
  RandomData random(33);
  const auto made = MakeBackend(kPlainPath, 1);
  const auto stored = Store(*made.backend, DType::kQ4_K, 32, 256,
                            random.Weights(DType::kQ4_K, 32, 256));
  auto x = random.Floats(kManyRows * 256);
  x[5 * 256 + 100] = std::nanf("");
  const auto out = Product(GetParam(), stored.view, x, kManyRows, false);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::isnan(out[i]), i / 32 == 5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, MatMulManyTest,
                         ::testing::Values("AVX3_DL", "AVX3_DL_WINOGRAD"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace plimsoll::kernels
