// CUDA's products in F16, on the emulator and on device 0: what they lose, and
// what it does not depend on.
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/mat_mul/products.h"

namespace plimsoll::kernels {
namespace {

using MatMulHalfTest = BackendTest;

// More than a block of threads has rows.
constexpr int64_t kRows = 150;

std::vector<DType> HalfTypes() {
  std::vector<DType> types = WeightTypes();
  std::erase(types, DType::kF32);
  return types;
}

// Types with long blocks: 16 tiles of columns; others: 9, an odd number.
int64_t ColumnsOf(DType dtype) {
  return InfoOf(dtype).block_elems > 32 ? 512 : 288;
}

// The product of a row of weights and a row of activations, and what the
// rounding of both may change: 2^-12 of a weight and of an activation.
struct Expected {
  double sum = 0;
  double tolerance = 0;

  Expected(DType dtype, const float* row, const float* xs, int64_t cols)
      : tolerance(Magnitude(dtype, row, xs, cols) *
                  (0x1p-11 + static_cast<double>(cols) * 0x1p-24)) {
    for (int64_t c = 0; c < cols; ++c) sum += double{row[c]} * xs[c];
  }
};

// Few outputs and many have other kernels; both end within a tile.
TEST_P(MatMulHalfTest, LoseTheRoundingOfWeightsAndActivations) {
  RandomData random(13);
  for (const DType dtype : HalfTypes()) {
    const int64_t cols = ColumnsOf(dtype);
    for (const int64_t outputs : {40, 390}) {
      const auto bytes = random.Weights(dtype, outputs, cols);
      const auto stored = Store(backend(), dtype, outputs, cols, bytes);
      const auto w = Dequantized(dtype, outputs, cols, bytes);
      auto x = random.Floats(kRows * cols);
      // Rows of all sizes, and blocks of them.
      for (int64_t i = 0; i < kRows * cols; ++i) {
        const auto exponent = static_cast<int>(i / cols % 7 * 20 - 60);
        const float block = i % cols < 32 ? 1.0f : 0.01f;
        x[static_cast<size_t>(i)] *= std::ldexp(block, exponent);
      }
      const auto out = Product(backend(), stored.view, x, kRows, true);
      for (const int64_t m : {0, 3, 64, 127, 128, 149}) {
        for (int64_t r = 0; r < outputs; ++r) {
          const Expected expected(dtype, w.data() + r * cols,
                                  x.data() + m * cols, cols);
          ASSERT_NEAR(out[static_cast<size_t>(m * outputs + r)], expected.sum,
                      expected.tolerance)
              << DTypeName(dtype) << " [" << m << "," << r << "]";
        }
      }
    }
  }
}

// An output too, however many others there are.
TEST_P(MatMulHalfTest, ARowHasTheSameBitsInAnyBatch) {
  RandomData random(18);
  constexpr int64_t kOutputs = 390;
  constexpr int64_t kFew = 20;
  for (const DType dtype : {DType::kQ4_0, DType::kQ6_K, DType::kBF16}) {
    const int64_t cols = ColumnsOf(dtype);
    const auto bytes = random.Weights(dtype, kOutputs, cols);
    const auto stored = Store(backend(), dtype, kOutputs, cols, bytes);
    const auto few =
        Store(backend(), dtype, kFew, cols,
              {bytes.begin(), bytes.begin() + kFew * *RowBytes(dtype, cols)});
    const auto x = random.Floats(kRows * cols);
    // Steps of up to 32, up to 64 and more rows may have kernels of their own.
    for (const auto& [n_all, n] :
         {std::pair{32, 2}, {64, 40}, {150, 70}, {150, 129}}) {
      const std::vector<float> all_x(x.begin(), x.begin() + n_all * cols);
      const auto all = Product(backend(), stored.view, all_x, n_all, true);
      const int64_t first = n_all - n;
      const std::vector<float> some(all_x.begin() + first * cols, all_x.end());
      const auto out = Product(backend(), few.view, some, n, true);
      for (int64_t m = 0; m < n; ++m) {
        ASSERT_EQ(Bits(out.data() + m * kFew, kFew),
                  Bits(all.data() + (first + m) * kOutputs, kFew))
            << DTypeName(dtype) << ", row " << m << " of " << n;
      }
    }
  }
}

// Batches of rows of every size have kernels of their own, and blocks of
// threads share the columns of a few outputs.
TEST_P(MatMulHalfTest, EveryNumberOfRowsAgrees) {
  RandomData random(24);
  constexpr int64_t kOutputs = 300;
  constexpr int64_t kCols = 1'280;
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kBF16}) {
    const auto bytes = random.Weights(dtype, kOutputs, kCols);
    const auto stored = Store(backend(), dtype, kOutputs, kCols, bytes);
    const auto w = Dequantized(dtype, kOutputs, kCols, bytes);
    const auto x = random.Floats(kRows * kCols);
    for (const int64_t n : {2, 9, 32, 33, 64, 65, 128, 150}) {
      const std::vector<float> some(x.begin(), x.begin() + n * kCols);
      const auto out = Product(backend(), stored.view, some, n, true);
      for (const int64_t m : {int64_t{0}, n / 2, n - 1}) {
        for (int64_t r = 0; r < kOutputs; ++r) {
          const Expected expected(dtype, w.data() + r * kCols,
                                  x.data() + m * kCols, kCols);
          ASSERT_NEAR(out[static_cast<size_t>(m * kOutputs + r)], expected.sum,
                      expected.tolerance)
              << DTypeName(dtype) << " [" << m << "," << r << "] of " << n;
        }
      }
    }
  }
}

// The columns of types with short blocks end within a slot of a ring. The
// outputs end within a quad of tiles and within a tile.
TEST_P(MatMulHalfTest, FewRowsOfEveryTypeLoseTheRounding) {
  RandomData random(25);
  constexpr int64_t kOutputs = 90;
  for (const DType dtype : HalfTypes()) {
    const bool is_long = InfoOf(dtype).block_elems > 64;
    const int64_t cols = is_long ? 1'280 : 1'216;
    const auto bytes = random.Weights(dtype, kOutputs, cols);
    const auto stored = Store(backend(), dtype, kOutputs, cols, bytes);
    const auto w = Dequantized(dtype, kOutputs, cols, bytes);
    for (const int64_t n : {9, 64}) {
      const auto x = random.Floats(n * cols);
      const auto out = Product(backend(), stored.view, x, n, true);
      for (const int64_t m : {int64_t{0}, n / 2, n - 1}) {
        for (int64_t r = 0; r < kOutputs; ++r) {
          const Expected expected(dtype, w.data() + r * cols,
                                  x.data() + m * cols, cols);
          ASSERT_NEAR(out[static_cast<size_t>(m * kOutputs + r)], expected.sum,
                      expected.tolerance)
              << DTypeName(dtype) << " [" << m << "," << r << "] of " << n;
        }
      }
    }
  }
}

// Rows that are too long for their activations to lie in shared memory at once,
// in products that share a launch and add to what is there. The split of the
// columns does not depend on the rows of the step.
TEST_P(MatMulHalfTest, LongRowsHaveTheSameBitsInAnyStepOfFewRows) {
  RandomData random(26);
  constexpr int64_t kMostRows = 64;
  for (const DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kQ6_K}) {
    const int64_t cols = dtype == DType::kQ6_K ? 4'096 : 4'032;
    std::vector<StoredMatrix> stored;
    std::vector<std::vector<float>> weights;
    for (const int64_t outputs : {70, 17}) {
      const auto bytes = random.Weights(dtype, outputs, cols);
      stored.push_back(Store(backend(), dtype, outputs, cols, bytes));
      weights.push_back(Dequantized(dtype, outputs, cols, bytes));
    }
    const auto x = random.Floats(kMostRows * cols);
    const auto packed = Packed(backend(), x, kMostRows, cols);
    const auto row_bytes = static_cast<size_t>(PackedRowBytes(cols));
    // Rows [first, first + n).
    const auto multiply = [&](int64_t first, int64_t n) {
      std::vector<std::vector<float>> outs;
      std::vector<MatMulArgs> products;
      for (const StoredMatrix& matrix : stored) {
        outs.emplace_back(static_cast<size_t>(n * matrix.view.rows), 1.0f);
      }
      for (size_t i = 0; i < stored.size(); ++i) {
        products.push_back(
            {stored[i].view, x.data() + first * cols,
             packed.data() + static_cast<size_t>(first) * row_bytes,
             outs[i].data(), n, /*accumulate=*/true});
      }
      EXPECT_TRUE(backend().MatMuls(products).ok());
      return outs;
    };
    for (const auto& [n_all, first, n] :
         {std::tuple{32, 7, 9}, std::tuple{64, 20, 33}}) {
      const auto all = multiply(0, n_all);
      const auto some = multiply(first, n);
      for (size_t i = 0; i < stored.size(); ++i) {
        const int64_t outputs = stored[i].view.rows;
        for (int64_t m = 0; m < n; ++m) {
          const float* row = all[i].data() + (first + m) * outputs;
          ASSERT_EQ(Bits(some[i].data() + m * outputs, outputs),
                    Bits(row, outputs))
              << DTypeName(dtype) << ", row " << m << " of " << n;
          if (m % 8 != 0) continue;
          for (int64_t r = 0; r < outputs; ++r) {
            const Expected expected(dtype, weights[i].data() + r * cols,
                                    x.data() + (first + m) * cols, cols);
            ASSERT_NEAR(row[r], expected.sum + 1, expected.tolerance + 1e-6)
                << DTypeName(dtype) << " [" << m << "," << r << "]";
          }
        }
      }
    }
  }
}

TEST_P(MatMulHalfTest, ProductsTogetherHaveTheBitsOfEachAloneAndAddUp) {
  RandomData random(19);
  constexpr int64_t kCols = 256;
  const auto x = random.Floats(kRows * kCols);
  const auto packed = Packed(backend(), x, kRows, kCols);
  std::vector<StoredMatrix> stored;
  std::vector<std::vector<float>> outs;
  for (const auto& [dtype, outputs] :
       {std::pair{DType::kQ4_0, 40}, {DType::kQ8_0, 17}, {DType::kQ4_0, 130}}) {
    stored.push_back(Store(backend(), dtype, outputs, kCols,
                           random.Weights(dtype, outputs, kCols)));
    outs.push_back(random.Floats(kRows * outputs));
  }
  const auto before = outs;
  std::vector<MatMulArgs> products;
  for (size_t i = 0; i < stored.size(); ++i) {
    products.push_back({stored[i].view, x.data(), packed.data(), outs[i].data(),
                        kRows, /*accumulate=*/true});
  }
  ASSERT_TRUE(backend().MatMuls(products).ok());
  for (size_t i = 0; i < stored.size(); ++i) {
    const auto alone = Product(backend(), stored[i].view, x, kRows, true);
    for (size_t at = 0; at < alone.size(); ++at) {
      ASSERT_EQ(outs[i][at], before[i][at] + alone[at]) << i << ", " << at;
    }
  }
}

// Weights are read before the kernels before have ended, activations after. The
// step is begun as one of one row, because only such graphs overlap.
TEST_P(MatMulHalfTest, ProductsOfAHeldStepWaitForTheirActivations) {
  RandomData random(27);
  constexpr int64_t kDim = 512;
  constexpr int64_t kFew = 12;
  const auto first = Store(backend(), DType::kQ4_0, kDim, kDim,
                           random.Weights(DType::kQ4_0, kDim, kDim));
  const auto second = Store(backend(), DType::kQ8_0, kDim, kDim,
                            random.Weights(DType::kQ8_0, kDim, kDim));
  constexpr int64_t kBytes = kFew * kDim * 4;
  const Buffer x = *backend().Allocate(kBytes);
  const Buffer between = *backend().Allocate(kBytes);
  const Buffer out = *backend().Allocate(kBytes);
  const Buffer packed = *backend().Allocate(kFew * PackedRowBytes(kDim));
  const auto floats = [](const Buffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
  };
  const auto run = [&](bool is_held, const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    for (const Buffer* buffer : {&x, &between, &out}) {
      EXPECT_TRUE(backend().Upload(bytes, buffer->view()).ok());
    }
    if (is_held) {
      EXPECT_TRUE(backend().BeginStep(1).ok());
    }
    const auto multiply = [&](const StoredMatrix& w, const Buffer& from,
                              const Buffer& to) {
      EXPECT_TRUE(
          backend()
              .PackActivations({floats(from), kFew, kDim, packed.data()})
              .ok());
      EXPECT_TRUE(backend()
                      .MatMul({w.view, floats(from), packed.data(), floats(to),
                               kFew, /*accumulate=*/false})
                      .ok());
    };
    multiply(first, x, between);
    multiply(second, between, out);
    EXPECT_TRUE(backend().Synchronize().ok());
    if (is_held) {
      EXPECT_TRUE(backend().EndStep().ok());
    }
    return Downloaded(backend(), {out.data(), kBytes});
  };
  for (int i = 0; i < 3; ++i) {
    const auto values = random.Floats(kFew * kDim);
    EXPECT_EQ(run(true, values), run(false, values)) << i;
  }
}

TEST_P(MatMulHalfTest, WhatIsNotFiniteShowsWhereItIs) {
  RandomData random(20);
  constexpr int64_t kCols = 256;
  constexpr int64_t kOutputs = 33;
  for (const DType dtype : HalfTypes()) {
    auto bytes = random.Weights(dtype, kOutputs, kCols);
    const size_t row_bytes = bytes.size() / kOutputs;
    const uint16_t infinity = dtype == DType::kBF16 ? 0x7F80 : 0x7C00;
    const bool is_damaged = dtype == DType::kBF16 || F16ScaleOffset(dtype) >= 0;
    if (is_damaged) {
      const auto at = std::max<int64_t>(F16ScaleOffset(dtype), 0);
      std::memcpy(&bytes[20 * row_bytes + static_cast<size_t>(at)], &infinity,
                  2);
    }
    const auto stored = Store(backend(), dtype, kOutputs, kCols, bytes);
    auto x = random.Floats(3 * kCols);
    x[kCols + 40] = HUGE_VALF;
    const auto out = Product(backend(), stored.view, x, 3, true);
    for (int64_t m = 0; m < 3; ++m) {
      for (int64_t r = 0; r < kOutputs; ++r) {
        EXPECT_EQ(std::isfinite(out[static_cast<size_t>(m * kOutputs + r)]),
                  m != 1 && !(is_damaged && r == 20))
            << DTypeName(dtype) << " [" << m << "," << r << "]";
      }
    }
  }
}

// Whole tiles of columns, and activations that may be rounded.
TEST_P(MatMulHalfTest, OtherProductsAreExact) {
  RandomData random(23);
  const BackendUnderTest exact =
      MakeBackend(IsEmulated(GetParam()) ? kCudaEmulatedName : kCudaName, 1);
  struct Matrix {
    DType dtype;
    int64_t cols;
    bool is_packed;
  };
  for (const Matrix& matrix : {Matrix{DType::kF16, 48, true},
                               {DType::kF32, 64, true},
                               {DType::kBF16, 64, false},
                               {DType::kQ8_0, 64, false}}) {
    const auto stored = Store(backend(), matrix.dtype, 16, matrix.cols,
                              random.Weights(matrix.dtype, 16, matrix.cols));
    const auto x = random.Floats(3 * matrix.cols);
    std::vector<std::byte> packed;
    if (matrix.is_packed)
      packed = Packed(backend(), x, 3, matrix.cols / 32 * 32);
    const auto product = [&](Backend& on) {
      std::vector<float> out(3 * 16);
      EXPECT_TRUE(on.MatMul({stored.view, x.data(),
                             matrix.is_packed ? packed.data() : nullptr,
                             out.data(), 3, /*accumulate=*/false})
                      .ok());
      return Bits(out);
    };
    EXPECT_EQ(product(backend()), product(*exact.backend))
        << DTypeName(matrix.dtype);
  }
}

TEST_P(MatMulHalfTest, RowsOfZerosGiveZeros) {
  RandomData random(21);
  const auto stored = Store(backend(), DType::kQ4_0, 16, 64,
                            random.Weights(DType::kQ4_0, 16, 64));
  const auto out =
      Product(backend(), stored.view, std::vector<float>(2 * 64), 2, true);
  EXPECT_EQ(out, std::vector<float>(2 * 16));
}

// 64 MiB of scratch hold rounded activations of 128 rows of so many columns:
// more rows take several passes, more columns another kernel.
TEST_P(MatMulHalfTest, LongRowsFillTheScratchMemoryAndLongerOnesAreExact) {
  constexpr int64_t kMostCols = 262'112;
  RandomData random(22);
  const BackendUnderTest exact =
      MakeBackend(IsEmulated(GetParam()) ? kCudaEmulatedName : kCudaName, 1);
  for (const auto& [cols, n_rows] :
       {std::pair{kMostCols, 129}, {kMostCols + 32, 2}}) {
    const auto stored = Store(backend(), DType::kQ4_0, 1, cols,
                              random.Weights(DType::kQ4_0, 1, cols));
    const auto x = random.Floats(cols);
    const auto row = Packed(backend(), x, 1, cols);
    std::vector<std::byte> packed;
    for (int m = 0; m < n_rows; ++m) {
      packed.insert(packed.end(), row.begin(), row.end());
    }
    std::vector<float> out(static_cast<size_t>(n_rows));
    ASSERT_TRUE(backend()
                    .MatMul({stored.view, x.data(), packed.data(), out.data(),
                             n_rows, /*accumulate=*/false})
                    .ok());
    EXPECT_EQ(Bits({out.front()}), Bits({out.back()}));
    const auto alone = Product(*exact.backend, stored.view, x, 1, true);
    // Tensor cores cut off what is below the last bit of so long a sum.
    EXPECT_NEAR(out.front(), alone.front(), 3e-2);
    EXPECT_EQ(Bits({out.front()}) == Bits(alone), cols > kMostCols);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MatMulHalfTest,
                         ::testing::ValuesIn(HalfBackendNames()),
                         BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
