// Products: close to a double-precision sum, and the same bits in any batch.
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/mat_mul/products.h"
#include "tests/sanitized.h"

namespace plimsoll::kernels {
namespace {

class MatMulTest : public BackendTest {
 protected:
  // The most rows of a step in which a row has the bits that it has alone.
  static int64_t MostLikeOne() {
    constexpr int64_t kMostStreamed = 8;
    return StreamsWeights(GetParam()) ? kMostStreamed
                                      : std::numeric_limits<int64_t>::max();
  }
};

struct Shape {
  int64_t n_rows;
  int64_t outputs;
  int64_t blocks;  // blocks of columns
};

// Expects every output within the rounding of a chain of `cols` additions,
// plus, for packed activations, half a step of amax / 32512 in each.
void ExpectClose(DType dtype, const std::vector<float>& out,
                 const std::vector<float>& w, const std::vector<float>& x,
                 int64_t n_rows, int64_t outputs, int64_t cols,
                 bool is_packed) {
  for (int64_t m = 0; m < n_rows; ++m) {
    for (int64_t r = 0; r < outputs; ++r) {
      const float* row = w.data() + r * cols;
      const float* xs = x.data() + m * cols;
      double sum = 0;
      double w_sum = 0;
      for (int64_t c = 0; c < cols; ++c) {
        sum += double{row[c]} * xs[c];
        w_sum += std::abs(row[c]);
      }
      double tolerance = Magnitude(dtype, row, xs, cols) *
                             static_cast<double>(cols) * 0x1p-24 +
                         1e-12;
      if (is_packed) tolerance += w_sum * 0.5 / 32512 + 1e-6 * w_sum;
      ASSERT_NEAR(out[static_cast<size_t>(m * outputs + r)], sum, tolerance)
          << DTypeName(dtype) << " [" << m << "," << r << "] of " << n_rows
          << "x" << outputs << "x" << cols;
    }
  }
}

TEST_P(MatMulTest, AgreesWithADoubleSumInEveryTypeAndShape) {
  RandomData random(5);
  for (const DType dtype : WeightTypes()) {
    const int64_t block = InfoOf(dtype).block_elems;
    for (const Shape& shape : {Shape{1, 1, 1},
                               {1, 16, 2},
                               {2, 17, 3},
                               {7, 33, 5},
                               {13, 31, 2},
                               {67, 19, 1}}) {
      const int64_t cols =
          block == 1 ? 29 * shape.blocks : block * shape.blocks;
      const auto bytes = random.Weights(dtype, shape.outputs, cols);
      const auto stored = Store(backend(), dtype, shape.outputs, cols, bytes);
      const auto w = Dequantized(dtype, shape.outputs, cols, bytes);
      const auto x = random.Floats(shape.n_rows * cols);
      for (const bool is_packed : {false, true}) {
        if (is_packed && block == 1) continue;
        const auto out =
            Product(backend(), stored.view, x, shape.n_rows, is_packed);
        ExpectClose(dtype, out, w, x, shape.n_rows, shape.outputs, cols,
                    is_packed);
      }
    }
  }
}

// Rows so long that loops over their columns are in full swing, and end with
// every warp or thread at another column.
TEST_P(MatMulTest, LongRowsAgreeAndHaveTheSameBitsInAnyBatch) {
  // Emulators and sanitizers take their time.
  const bool is_slow = testing::kIsSanitized || IsEmulated(GetParam());
  const int64_t n_rows = is_slow ? 40 : 130;
  constexpr int64_t kOutputs = 49;
  RandomData random(17);
  // An emulator takes each third type, but in the long run.
  const size_t each = IsEmulated(GetParam()) && !testing::kIsLong ? 3 : 1;
  const auto& types = WeightTypes();
  for (size_t i = 0; i < types.size(); i += each) {
    const DType dtype = types[i];
    const int64_t block = InfoOf(dtype).block_elems;
    if (block == 1) continue;
    const int64_t cols = block == 32 ? 32 * 109 : 256 * 13;
    const auto bytes = random.Weights(dtype, kOutputs, cols);
    const auto stored = Store(backend(), dtype, kOutputs, cols, bytes);
    const auto w = Dequantized(dtype, kOutputs, cols, bytes);
    const auto x = random.Floats(n_rows * cols);
    const auto alone = Product(backend(), stored.view, x, 1, true);
    ExpectClose(dtype, alone, w, x, 1, kOutputs, cols, true);
    for (const int64_t n : {int64_t{3}, int64_t{11}, int64_t{20}, n_rows}) {
      const auto out = Product(backend(), stored.view, x, n, true);
      ExpectClose(dtype, out, w, x, n, kOutputs, cols, true);
      if (n > MostLikeOne()) continue;
      EXPECT_EQ(Bits(alone), Bits(out.data(), kOutputs))
          << DTypeName(dtype) << ", " << n << " rows";
    }
  }
}

// Columns that blocks of threads share, and more outputs than blocks.
TEST_P(MatMulTest, RowsOfManyColumnsAgreeAndHaveTheSameBitsInAnyBatch) {
  constexpr int64_t kOutputs = 197;
  RandomData random(31);
  for (const DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kQ5_1,
                            DType::kQ4_K, DType::kQ6_K, DType::kQ2_K}) {
    const int64_t cols = InfoOf(dtype).block_elems == 32 ? 32 * 301 : 256 * 35;
    const auto bytes = random.Weights(dtype, kOutputs, cols);
    const auto stored = Store(backend(), dtype, kOutputs, cols, bytes);
    const auto w = Dequantized(dtype, kOutputs, cols, bytes);
    constexpr int64_t kRows = 8;
    const auto x = random.Floats(kRows * cols);
    const auto alone = Product(backend(), stored.view, x, 1, true);
    for (const int64_t n : {int64_t{1}, int64_t{2}, kRows}) {
      const auto out = Product(backend(), stored.view, x, n, true);
      ExpectClose(dtype, out, w, x, n, kOutputs, cols, true);
      EXPECT_EQ(Bits(alone), Bits(out.data(), kOutputs))
          << DTypeName(dtype) << ", " << n << " rows";
    }
  }
}

// Half of a sum is exact, so a scaled product has the bits of half of it.
TEST_P(MatMulTest, AScaleMultipliesTheProduct) {
  constexpr int64_t kOutputs = 49;
  constexpr int64_t kCols = 256;
  RandomData random(19);
  const StoredScale half(backend(), {0.5f});
  for (const DType dtype : {DType::kNvfp4, DType::kQ4_K, DType::kF16}) {
    const auto stored = Store(backend(), dtype, kOutputs, kCols,
                              random.Weights(dtype, kOutputs, kCols));
    WeightMatrix scaled = stored.view;
    scaled.scale = half.data();
    for (const int64_t n_rows : {1, 3, 11, 40}) {
      const auto x = random.Floats(n_rows * kCols);
      for (const bool is_packed : {false, true}) {
        auto expected = Product(backend(), stored.view, x, n_rows, is_packed);
        for (float& value : expected) value *= 0.5f;
        EXPECT_EQ(Bits(Product(backend(), scaled, x, n_rows, is_packed)),
                  Bits(expected))
            << DTypeName(dtype) << ", " << n_rows << " rows";
      }
    }
  }
}

// What is in the outputs is not scaled, and a cap is that of the scaled
// product.
TEST_P(MatMulTest, AScaleIsOfTheProductAlone) {
  RandomData random(23);
  const StoredMatrix stored = Store(backend(), DType::kQ8_0, 20, 64,
                                    random.Weights(DType::kQ8_0, 20, 64));
  const StoredScale three(backend(), {3.0f});
  WeightMatrix scaled = stored.view;
  scaled.scale = three.data();
  const auto x = random.FloatsWithin(2 * 64, 100.0f);
  const auto product = Product(backend(), stored.view, x, 2, false);
  const auto before = random.Floats(2 * 20);
  auto added = before;
  ASSERT_TRUE(backend()
                  .MatMul({scaled, x.data(), nullptr, added.data(), 2, true})
                  .ok());
  auto capped = before;
  MatMulArgs with_cap = {scaled, x.data(), nullptr, capped.data(), 2, false};
  with_cap.soft_cap = 5;
  ASSERT_TRUE(backend().MatMul(with_cap).ok());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(added[i], before[i] + 3 * product[i],
                1e-6 * std::abs(3 * product[i]) + 1e-6);
    EXPECT_NEAR(capped[i], 5 * std::tanh(3 * product[i] / 5), 1e-5);
  }
}

TEST_P(MatMulTest, ExtremeActivationsAndWeightsDoNotOverflowTheIntegers) {
  // Every quant -128, every activation at the end of its block's scale.
  constexpr int64_t kCols = 64;
  std::vector<std::byte> bytes(16 * 68, std::byte{0x80});
  const uint16_t one = F16FromF32(1.0f);
  for (size_t b = 0; b < 32; ++b) std::memcpy(&bytes[b * 34], &one, 2);
  const auto stored = Store(backend(), DType::kQ8_0, 16, kCols, bytes);
  const std::vector<float> x(kCols, -3.0f);
  const auto out = Product(backend(), stored.view, x, 1, true);
  for (const float value : out) {
    EXPECT_NEAR(value, 128.0 * 3.0 * kCols, 128.0 * 3.0 * kCols * 1e-6);
  }
}

TEST_P(MatMulTest, ARowHasTheSameBitsAloneAndInAnyBatch) {
  RandomData random(6);
  constexpr int64_t kRows = 64;
  constexpr int64_t kOutputs = 73;  // enough for a kernel's widest tiles
  for (const DType dtype : WeightTypes()) {
    const int64_t cols = 512;
    const auto bytes = random.Weights(dtype, kOutputs, cols);
    const auto stored = Store(backend(), dtype, kOutputs, cols, bytes);
    const auto x = random.Floats(kRows * cols);
    for (const bool is_packed : {false, true}) {
      std::vector<float> alone;
      for (int64_t m = 0; m < kRows; ++m) {
        const std::vector<float> row(x.begin() + m * cols,
                                     x.begin() + (m + 1) * cols);
        const auto out = Product(backend(), stored.view, row, 1, is_packed);
        alone.insert(alone.end(), out.begin(), out.end());
      }
      for (const int64_t n : {2, 3, 5, 8, 13, 31, 64}) {
        const std::vector<float> head(x.begin(), x.begin() + n * cols);
        if (is_packed && n > MostLikeOne()) continue;
        const auto out = Product(backend(), stored.view, head, n, is_packed);
        ASSERT_EQ(Bits(out), Bits(alone.data(), n * kOutputs))
            << DTypeName(dtype) << " batch of " << n;
      }
    }
  }
}

TEST_P(MatMulTest, TheThreadCountChangesNoBit) {
  RandomData random(7);
  constexpr int64_t kOutputs = 333;
  constexpr int64_t kCols = 256;
  for (const DType dtype : WeightTypes()) {
    const auto bytes = random.Weights(dtype, kOutputs, kCols);
    const auto x = random.Floats(5 * kCols);
    std::vector<std::vector<uint32_t>> results;
    for (const int n_threads : {1, 2, 3}) {
      const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
      const auto stored = Store(*made.backend, dtype, kOutputs, kCols, bytes);
      results.push_back(Bits(Product(*made.backend, stored.view, x, 5, true)));
    }
    EXPECT_EQ(results[0], results[1]) << DTypeName(dtype);
    EXPECT_EQ(results[0], results[2]) << DTypeName(dtype);
  }
}

TEST_P(MatMulTest, AccumulateAddsToWhatIsThere) {
  RandomData random(8);
  constexpr int64_t kOutputs = 21;
  for (const DType dtype : {DType::kQ5_0, DType::kF16}) {
    const auto bytes = random.Weights(dtype, kOutputs, 64);
    const auto stored = Store(backend(), dtype, kOutputs, 64, bytes);
    const auto x = random.Floats(3 * 64);
    const auto plain = Product(backend(), stored.view, x, 3, false);
    auto out = random.Floats(3 * kOutputs);
    const auto before = out;
    ASSERT_TRUE(
        backend()
            .MatMul({stored.view, x.data(), nullptr, out.data(), 3, true})
            .ok());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], before[i] + plain[i], 1e-6);
    }
  }
}

TEST_P(MatMulTest, ANonFiniteActivationShows) {
  RandomData random(9);
  const auto bytes = random.Weights(DType::kQ8_0, 16, 64);
  const auto stored = Store(backend(), DType::kQ8_0, 16, 64, bytes);
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    auto x = random.Floats(64);
    x[40] = bad;
    for (const float value : Product(backend(), stored.view, x, 1, true)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

// A damaged weight, or the scale of a block, shows in its output and in no
// other.
TEST_P(MatMulTest, ANonFiniteWeightShows) {
  RandomData random(9);
  constexpr int64_t kCols = 256;
  constexpr int64_t kOutputs = 33;
  for (const DType dtype : WeightTypes()) {
    if (F16ScaleOffset(dtype) < 0) continue;
    for (const uint16_t bad :
         std::initializer_list<uint16_t>{0x7E00, 0x7C00, 0xFC00}) {
      auto bytes = random.Weights(dtype, kOutputs, kCols);
      // The scale of row 20's first block, or its first weight.
      const size_t row_bytes = bytes.size() / kOutputs;
      const auto at = static_cast<size_t>(F16ScaleOffset(dtype));
      std::memcpy(&bytes[20 * row_bytes + at], &bad, 2);
      const auto stored = Store(backend(), dtype, kOutputs, kCols, bytes);
      const auto x = random.Floats(kCols);
      for (const bool is_packed : {false, true}) {
        const auto out = Product(backend(), stored.view, x, 1, is_packed);
        for (size_t r = 0; r < out.size(); ++r) {
          EXPECT_EQ(std::isfinite(out[r]), r != 20)
              << DTypeName(dtype) << " output " << r;
        }
      }
    }
  }
}

// Several products share one loop, whatever their types, sizes and precision.
TEST_P(MatMulTest, ProductsTogetherHaveTheBitsOfEachAlone) {
  RandomData random(10);
  constexpr int64_t kCols = 256;
  constexpr int64_t kRows = 3;
  const auto x = random.Floats(kRows * kCols);
  const auto packed = Packed(backend(), x, kRows, kCols);
  struct Matrix {
    DType dtype;
    int64_t outputs;
    bool is_packed;
  };
  const std::vector<std::vector<Matrix>> calls = {
      {{DType::kQ4_0, 1, true},
       {DType::kQ6_K, 333, true},
       {DType::kQ8_0, 16, true}},
      {{DType::kQ5_K, 600, true}, {DType::kQ4_1, 17, true}},
      {{DType::kQ4_K, 40, true},
       {DType::kF16, 19, true},
       {DType::kQ4_K, 33, false}},
      // More of one type than a launch takes, with others among them.
      {{DType::kQ8_0, 33, true},
       {DType::kQ4_K, 40, true},
       {DType::kQ8_0, 1, true},
       {DType::kQ8_0, 16, true},
       {DType::kQ8_0, 50, true},
       {DType::kQ4_K, 16, true},
       {DType::kQ8_0, 17, true}},
  };
  for (const std::vector<Matrix>& matrices : calls) {
    std::vector<StoredMatrix> stored;
    std::vector<std::vector<float>> outs;
    std::vector<MatMulArgs> products;
    for (const Matrix& matrix : matrices) {
      stored.push_back(
          Store(backend(), matrix.dtype, matrix.outputs, kCols,
                random.Weights(matrix.dtype, matrix.outputs, kCols)));
      outs.emplace_back(static_cast<size_t>(kRows * matrix.outputs));
      products.push_back({stored.back().view, x.data(),
                          matrix.is_packed ? packed.data() : nullptr,
                          outs.back().data(), kRows, false});
    }
    ASSERT_TRUE(backend().MatMuls(products).ok());
    for (size_t i = 0; i < matrices.size(); ++i) {
      const auto alone =
          Product(backend(), stored[i].view, x, kRows, matrices[i].is_packed);
      EXPECT_EQ(Bits(outs[i]), Bits(alone)) << DTypeName(matrices[i].dtype);
    }
  }
  EXPECT_TRUE(backend().MatMuls({}).ok());
}

#ifdef PLIMSOLL_TEST_CUDA_EMULATION
// Blocks of 128 rows and outputs, and what is past their end.
constexpr int64_t kBlockRows = 150;
constexpr int64_t kBlockOutputs = 139;

int64_t QuantisedBlocks(DType dtype) {
  // 8-bit: 9 tiles of columns, one of them in a second round; K types: 16.
  return InfoOf(dtype).block_elems < 256 ? 9 : 2;
}

TEST(CudaMatMulTest, BlocksOfManyRowsHaveTheBitsOfSingleRows) {
  RandomData random(12);
  const auto backend = *NewEmulatedCudaBackend(BatchInvariant());
  const BackendUnderTest single = MakeBackend(kCudaEmulatedExactName, 1);
  ASSERT_LE(BatchInvariant().prompt_product_rows, kBlockRows);
  for (const DType dtype : WeightTypes()) {
    const int64_t block = InfoOf(dtype).block_elems;
    if (block == 1) continue;
    const int64_t cols = block * QuantisedBlocks(dtype);
    const auto bytes = random.Weights(dtype, kBlockOutputs, cols);
    const auto stored = Store(*backend, dtype, kBlockOutputs, cols, bytes);
    const auto x = random.Floats(kBlockRows * cols);
    const auto packed = Packed(*backend, x, kBlockRows, cols);
    std::vector<float> out(kBlockRows * kBlockOutputs, 0.5f);
    ASSERT_TRUE(backend
                    ->MatMul({stored.view, x.data(), packed.data(), out.data(),
                              kBlockRows, /*accumulate=*/true})
                    .ok());
    for (const int64_t row : {0, 1, 77, 127, 128, 149}) {
      std::vector<float> alone(kBlockOutputs, 0.5f);
      ASSERT_TRUE(single.backend
                      ->MatMul({stored.view, x.data() + row * cols,
                                packed.data() + row * PackedRowBytes(cols),
                                alone.data(), 1, /*accumulate=*/true})
                      .ok());
      EXPECT_EQ(Bits(alone),
                Bits(out.data() + row * kBlockOutputs, kBlockOutputs))
          << DTypeName(dtype) << " row " << row;
    }
  }
}

// Few matrices and many have other kernels; so do F32 weights.
TEST(CudaMatMulTest, StepsBetweenTheStepRowsHaveTheirKernels) {
  constexpr int64_t kCols = 32;
  constexpr int64_t kRows = 140;
  RandomData random(14);
  const auto backend = *NewEmulatedCudaBackend();
  const auto x = random.Floats(kRows * kCols);
  const auto packed = Packed(*backend, x, kRows, kCols);
  std::vector<float> out(kRows * 80);
  int64_t n_steps = 0;
  std::vector<StoredMatrix> matrices;
  for (const auto& [dtype, outputs] :
       {std::pair{DType::kQ8_0, 48}, {DType::kQ8_0, 80}, {DType::kF32, 8}}) {
    matrices.push_back(Store(*backend, dtype, outputs, kCols,
                             random.Weights(dtype, outputs, kCols)));
  }
  const auto step = [&](int64_t n) {
    ++n_steps;
    ASSERT_TRUE(backend->BeginStep(n).ok());
    for (const StoredMatrix& w : matrices) {
      ASSERT_TRUE(backend
                      ->MatMul({w.view, x.data(), packed.data(), out.data(), n,
                                /*accumulate=*/false})
                      .ok());
    }
    ASSERT_TRUE(backend->Synchronize().ok());
    ASSERT_TRUE(backend->EndStep().ok());
  };
  const EmulatedGraphCounts before = ReadEmulatedGraphCounts();
  for (const int64_t n : backend->Device().step_rows) step(n);
  step(kRows);
  backend->EndWarmUp();
  for (int64_t n = 1; n < kRows; ++n) step(n);
  const EmulatedGraphCounts after = ReadEmulatedGraphCounts();
  EXPECT_EQ(after.built - before.built,
            std::ssize(backend->Device().step_rows) + 1);
  EXPECT_EQ(after.launched - before.launched, n_steps);
}
#endif

INSTANTIATE_TEST_SUITE_P(Backends, MatMulTest,
                         ::testing::ValuesIn(ProductBackendNames()),
                         BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
