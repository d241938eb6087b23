// Storage of weights: what goes in as file bytes comes out as the same values.
#include <numeric>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using WeightsTest = BackendTest;

int64_t BlockOf(DType dtype) {
  return std::max<int64_t>(InfoOf(dtype).block_elems, 1);
}

TEST_P(WeightsTest, GetRowsReturnsEveryRowBitEqualToTheReferenceDecoder) {
  RandomData random(1);
  for (const DType dtype : WeightTypes()) {
    for (const int64_t rows : {1, 15, 16, 17, 37}) {
      const int64_t cols = BlockOf(dtype) == 1 ? 45 : 3 * BlockOf(dtype);
      const auto bytes = random.Weights(dtype, rows, cols);
      const StoredMatrix stored = Store(backend(), dtype, rows, cols, bytes);
      std::vector<int32_t> tokens;
      for (int64_t r = rows; r-- > 0;) {
        tokens.push_back(static_cast<int32_t>(r));
      }
      std::vector<float> out(static_cast<size_t>(rows * cols));
      ASSERT_TRUE(
          backend()
              .GetRows({stored.view, tokens.data(), rows, 1.0f, out.data()})
              .ok());
      const auto expected = Dequantized(dtype, rows, cols, bytes);
      for (int64_t r = 0; r < rows; ++r) {
        // Adding zero makes negative zeros positive.
        for (int64_t c = 0; c < cols; ++c) {
          ASSERT_EQ(
              out[static_cast<size_t>(r * cols + c)] + 0.0f,
              expected[static_cast<size_t>((rows - 1 - r) * cols + c)] + 0.0f)
              << DTypeName(dtype) << " row " << r << " column " << c;
        }
      }
    }
  }
}

TEST_P(WeightsTest, Nvfp4HasTheValueOfEveryScale) {
  // A row has one block, with four of the 256 scales. Its codes are all 7,
  // which is 6; 0x7F is not a number and read as 0.
  std::vector<std::byte> bytes;
  for (int row = 0; row < 64; ++row) {
    for (int i = 0; i < 4; ++i) {
      bytes.push_back(static_cast<std::byte>(4 * row + i));
    }
    bytes.resize(bytes.size() + 32, std::byte{0x77});
  }
  const StoredMatrix stored = Store(backend(), DType::kNvfp4, 64, 64, bytes);
  std::vector<int32_t> tokens(64);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::vector<float> out(64 * 64);
  ASSERT_TRUE(backend()
                  .GetRows({stored.view, tokens.data(), 64, 1.0f, out.data()})
                  .ok());
  for (size_t e = 0; e < out.size(); ++e) {
    const auto scale = static_cast<int>(e / 16);
    const int exponent = scale / 8 % 16;
    const auto mantissa = static_cast<float>(scale % 8);
    const float value = exponent == 0
                            ? std::ldexp(mantissa, -9)
                            : std::ldexp(1 + mantissa / 8, exponent - 7);
    ASSERT_EQ(out[e], scale == 0x7F ? 0.0f : 6 * value) << "scale " << scale;
  }
}

TEST_P(WeightsTest, GetRowsScales) {
  RandomData random(2);
  const auto bytes = random.Weights(DType::kQ8_0, 5, 64);
  const StoredMatrix stored = Store(backend(), DType::kQ8_0, 5, 64, bytes);
  const auto values = Dequantized(DType::kQ8_0, 5, 64, bytes);
  const int32_t token = 3;
  std::vector<float> out(64);
  ASSERT_TRUE(
      backend().GetRows({stored.view, &token, 1, 25.25f, out.data()}).ok());
  for (size_t c = 0; c < 64; ++c) {
    EXPECT_EQ(out[c], values[3 * 64 + c] * 25.25f);
  }
}

TEST_P(WeightsTest, GetRowsAddsToWhatIsThere) {
  // Half of a value is exact, so a fused sum is the same.
  constexpr float kScale = 0.5f;
  RandomData random(5);
  for (const DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ6_K}) {
    const int64_t cols = BlockOf(dtype) == 1 ? 45 : 2 * BlockOf(dtype);
    const auto bytes = random.Weights(dtype, 20, cols);
    const StoredMatrix stored = Store(backend(), dtype, 20, cols, bytes);
    const auto values = Dequantized(dtype, 20, cols, bytes);
    const std::vector<int32_t> tokens = {17, 3, 17};
    const auto before = random.Floats(3 * cols);
    auto out = before;
    ASSERT_TRUE(
        backend()
            .GetRows({stored.view, tokens.data(), 3, kScale, out.data(), true})
            .ok());
    for (int64_t i = 0; i < 3 * cols; ++i) {
      const int64_t row = tokens[static_cast<size_t>(i / cols)];
      const auto at = static_cast<size_t>(i);
      const float scaled =
          values[static_cast<size_t>(row * cols + i % cols)] * kScale;
      EXPECT_EQ(out[at], before[at] + scaled) << DTypeName(dtype);
    }
  }
}

TEST_P(WeightsTest, GetRowsRefusesRowsOutsideOfTheTable) {
  RandomData random(3);
  const auto bytes = random.Weights(DType::kF32, 5, 8);
  const StoredMatrix stored = Store(backend(), DType::kF32, 5, 8, bytes);
  std::vector<float> out(8);
  for (const int32_t token : {-1, 5}) {
    EXPECT_EQ(
        backend().GetRows({stored.view, &token, 1, 1.0f, out.data()}).code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(WeightsTest, RowsMayArriveInPieces) {
  RandomData random(4);
  constexpr int64_t kRows = 55;
  constexpr int64_t kCols = 256;
  for (const DType dtype : WeightTypes()) {
    const auto bytes = random.Weights(dtype, kRows, kCols);
    const StoredMatrix whole = Store(backend(), dtype, kRows, kCols, bytes);
    const int64_t row_bytes = *RowBytes(dtype, kCols);
    const Buffer pieces = *backend().Allocate(whole.buffer.bytes());
    const std::span<const std::byte> all(bytes);
    for (const auto& [first, n] : {std::pair{32, 23}, {0, 16}, {16, 16}}) {
      ASSERT_TRUE(backend()
                      .UploadRows({.dtype = dtype,
                                   .rows = kRows,
                                   .cols = kCols,
                                   .first_row = first,
                                   .bytes = all.subspan(
                                       static_cast<size_t>(first * row_bytes),
                                       static_cast<size_t>(n * row_bytes))},
                                  pieces.view())
                      .ok());
    }
    EXPECT_TRUE(Downloaded(backend(), pieces.view()) ==
                Downloaded(backend(), whole.buffer.view()))
        << DTypeName(dtype);
  }
}

TEST_P(WeightsTest, UploadRowsRefusesWhatDoesNotFit) {
  const Buffer buffer = *backend().Allocate(1);
  const std::vector<std::byte> bytes(34 * 16);
  const auto code = [&](DType dtype, int64_t rows, int64_t cols,
                        BufferView to) {
    return backend()
        .UploadRows(
            {.dtype = dtype, .rows = rows, .cols = cols, .bytes = bytes}, to)
        .code();
  };
  EXPECT_EQ(code(DType::kQ8_K, 16, 256, buffer.view()),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(DType::kQ8_0, 16, 33, buffer.view()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(DType::kQ8_0, 15, 32, buffer.view()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(DType::kQ8_0, 16, 32, {buffer.data(), 34 * 16 - 1}),
            absl::StatusCode::kInvalidArgument);
}

// No rows are given: nothing is read or written.
TEST_P(WeightsTest, QuantisedRowsForCudaHaveAtMost16777216Columns) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const Buffer buffer = *backend().Allocate(1);
  const auto status = [&](DType dtype, int64_t cols) {
    return backend().UploadRows({.dtype = dtype, .rows = 0, .cols = cols},
                                buffer.view());
  };
  EXPECT_TRUE(status(DType::kQ8_0, kMost).ok());
  EXPECT_TRUE(status(DType::kF16, kMost + 32).ok());
  EXPECT_EQ(status(DType::kQ8_0, kMost + 32).code(),
            IsCuda(GetParam()) ? absl::StatusCode::kInvalidArgument
                               : absl::StatusCode::kOk);
}

TEST(Float16Test, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = F32FromF16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F32FromF16(F16FromF32(value))));
    } else {
      EXPECT_EQ(F16FromF32(value), half);
    }
  }
}

TEST(Float16Test, RoundsToNearestEven) {
  EXPECT_EQ(F16FromF32(1.0f + 0x1p-11f), F16FromF32(1.0f));
  EXPECT_EQ(F16FromF32(1.0f + 3 * 0x1p-11f), F16FromF32(1.0f + 0x1p-9f));
  EXPECT_EQ(F16FromF32(65519.0f), 0x7BFF);
  EXPECT_EQ(F16FromF32(65520.0f), 0x7C00);
  EXPECT_EQ(F16FromF32(0x1p-25f), 0);
  EXPECT_EQ(F16FromF32(0x1.8p-25f), 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, WeightsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
