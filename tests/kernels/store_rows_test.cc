// Rows as a cache keeps them, byte for byte.
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using StoreRowsTest = BackendTest;

// One row of `dtype`.
std::vector<std::byte> Stored(Backend& backend, DType dtype,
                              const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<std::byte> row(static_cast<size_t>(*RowBytes(dtype, n)));
  const int64_t offset = 0;
  EXPECT_TRUE(
      backend.StoreRows({x.data(), 1, n, dtype, row.data(), &offset}).ok());
  return row;
}

uint16_t HalfAt(const std::vector<std::byte>& row, size_t at) {
  uint16_t half;
  std::memcpy(&half, &row[at], 2);
  return half;
}

int QuantAt(const std::vector<std::byte>& row, size_t at) {
  return static_cast<int8_t>(row[at]);
}

TEST_P(StoreRowsTest, RowsGoToTheirOffsetsRoundedToF16OrAsTheyAre) {
  RandomData random(25);
  constexpr int64_t kDim = 37;
  auto x = random.FloatsWithin(3 * kDim, 100.0f);
  x[0] = 65519.0f;
  x[1] = 70000.0f;
  x[2] = 1e-7f;
  x[3] = -0.0f;
  x[4] = 1.0f + 0x1p-11f;
  const std::vector<int64_t> offsets = {1024, 0, 512};
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    std::vector<std::byte> base(2048);
    ASSERT_TRUE(
        backend()
            .StoreRows({x.data(), 3, kDim, dtype, base.data(), offsets.data()})
            .ok());
    for (size_t r = 0; r < 3; ++r) {
      const std::byte* row = &base[static_cast<size_t>(offsets[r])];
      for (size_t c = 0; c < kDim; ++c) {
        const float value = x[r * kDim + c];
        if (dtype == DType::kF32) {
          EXPECT_EQ(std::memcmp(row + c * 4, &value, 4), 0);
        } else {
          const uint16_t half = F16FromF32(value);
          EXPECT_EQ(std::memcmp(row + c * 2, &half, 2), 0) << value;
        }
      }
    }
  }
}

TEST_P(StoreRowsTest, Bf16RoundsToNearestAndTiesToEven) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<float, uint16_t>> cases = {
      {1.0f, 0x3F80},
      {1.0f + 0x1p-8f, 0x3F80},             // a tie, to even
      {1.0f + 0x1p-8f + 0x1p-23f, 0x3F81},  // just above
      {1.0f + 3 * 0x1p-8f, 0x3F82},         // a tie, to even
      {-1.0f - 3 * 0x1p-8f, 0xBF82},
      {2.0f - 0x1p-23f, 0x4000},  // into the next exponent
      {std::numeric_limits<float>::max(), 0x7F80},
      {kInfinity, 0x7F80},
      {-kInfinity, 0xFF80},
      {0.0f, 0},
      {-0.0f, 0x8000},
      {0x1p-149f, 0},
      {0x1p-133f, 1}};
  std::vector<float> x;
  for (size_t i = 0; i < 40; ++i) x.push_back(cases[i % cases.size()].first);
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  while (x.size() < 83) x.push_back(-x.back());  // NaN in vectors and tail
  const auto row = Stored(backend(), DType::kBF16, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint16_t half = HalfAt(row, 2 * i);
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(F32FromBf16(half))) << i;
    } else {
      EXPECT_EQ(half, cases[i % cases.size()].second) << x[i];
    }
  }
}

TEST_P(StoreRowsTest, Q80RoundsHalfAwayFromZeroByTheUnroundedScale) {
  RandomData random(26);
  // A largest magnitude of 127 * 2^-4 makes the scale 2^-4.
  constexpr float kD = 0x1p-4f;
  std::vector<float> x(32, 0.0f);
  const std::vector<std::pair<float, int>> cases = {
      {127.0f, 127}, {0.5f, 1},   {-0.5f, -1},          {1.5f, 2},
      {2.5f, 3},     {-2.5f, -3}, {0.5f - 0x1p-25f, 0}, {-0.5f + 0x1p-25f, 0},
      {126.5f, 127}, {3.49f, 3},  {-126.49f, -126}};
  for (size_t i = 0; i < cases.size(); ++i) x[i] = cases[i].first * kD;
  const auto row = Stored(backend(), DType::kQ8_0, x);
  EXPECT_EQ(HalfAt(row, 0), F16FromF32(kD));
  for (size_t i = 0; i < 32; ++i) {
    const int wanted = i < cases.size() ? cases[i].second : 0;
    EXPECT_EQ(QuantAt(row, 2 + i), wanted) << "at " << i;
  }
  const auto values = random.FloatsWithin(6 * 32, 20.0f);
  const auto rows = Stored(backend(), DType::kQ8_0, values);
  for (size_t b = 0; b < 6; ++b) {
    float amax = 0;
    for (size_t i = 0; i < 32; ++i) {
      amax = std::max(amax, std::abs(values[b * 32 + i]));
    }
    const float d = amax / 127.0f;
    EXPECT_EQ(HalfAt(rows, b * 34), F16FromF32(d));
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(QuantAt(rows, b * 34 + 2 + i),
                std::lround(values[b * 32 + i] * (1.0f / d)))
          << "block " << b << " at " << i;
    }
  }
}

// The level of element `i` of a block whose nibbles begin at `at`.
int NibbleAt(const std::vector<std::byte>& row, size_t at, size_t i) {
  return (std::to_integer<int>(row[at + i % 16]) >> (i < 16 ? 0 : 4)) & 15;
}

// The level of element `i` of a block of Q5_1.
int FiveBitsAt(const std::vector<std::byte>& row, size_t block, size_t i) {
  uint32_t fifths;
  std::memcpy(&fifths, &row[block + 4], 4);
  return NibbleAt(row, block + 8, i) | static_cast<int>((fifths >> i) & 1) << 4;
}

TEST_P(StoreRowsTest, Q40RoundsByTheValueOfTheLargestMagnitude) {
  // A peak of -8 / 16 makes the scale 2^-4.
  constexpr float kD = 0x1p-4f;
  std::vector<float> x(32, 0.0f);
  const std::vector<std::pair<float, int>> cases = {
      {-8.0f, 0}, {7.0f, 15}, {7.9f, 15}, {0.5f, 9},
      {0.49f, 8}, {-0.5f, 8}, {-0.6f, 7}, {-7.49f, 1}};
  for (size_t i = 0; i < cases.size(); ++i) x[i] = cases[i].first * kD;
  const auto row = Stored(backend(), DType::kQ4_0, x);
  EXPECT_EQ(HalfAt(row, 0), F16FromF32(kD));
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(NibbleAt(row, 2, i), i < cases.size() ? cases[i].second : 8) << i;
  }
  // If two values are peaks, the positive one counts.
  x[1] = 8 * kD;
  EXPECT_EQ(HalfAt(Stored(backend(), DType::kQ4_0, x), 0), F16FromF32(-kD));
}

TEST_P(StoreRowsTest, Q51RoundsBetweenTheExtremes) {
  // Extremes of -3 / 4 and 28 / 4 make the scale 1 / 4.
  constexpr float kD = 0.25f;
  std::vector<float> x(32, 0.0f);
  const std::vector<std::pair<float, int>> cases = {
      {-3.0f, 0},  {28.0f, 31}, {27.4f, 30}, {27.5f, 31},
      {13.0f, 16}, {12.4f, 15}, {-2.6f, 0},  {-2.5f, 1}};
  for (size_t i = 0; i < cases.size(); ++i) x[i] = cases[i].first * kD;
  const auto row = Stored(backend(), DType::kQ5_1, x);
  EXPECT_EQ(HalfAt(row, 0), F16FromF32(kD));
  EXPECT_EQ(HalfAt(row, 2), F16FromF32(-3 * kD));
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(FiveBitsAt(row, 0, i), i < cases.size() ? cases[i].second : 3)
        << i;
  }
  // A block of one value keeps it.
  const auto same =
      Stored(backend(), DType::kQ5_1, std::vector<float>(32, -1.5f));
  EXPECT_EQ(HalfAt(same, 0), 0);
  EXPECT_EQ(Dequantized(DType::kQ5_1, 1, 32, same),
            std::vector<float>(32, -1.5f));
}

TEST_P(StoreRowsTest, TypesWithBlocksHaveTheReferencesBytes) {
  RandomData random(27);
  for (const float size : {1e-5f, 1.0f, 100.0f}) {
    const auto x = random.FloatsWithin(40 * 32, size);
    for (const DType dtype : {DType::kQ8_0, DType::kQ5_1, DType::kQ4_0}) {
      EXPECT_TRUE(Stored(backend(), dtype, x) ==
                  Stored(*NewReferenceBackend(), dtype, x))
          << DTypeName(dtype) << " of " << size;
    }
  }
}

TEST_P(StoreRowsTest, TypesWithBlocksShowWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::kQ8_0, DType::kQ5_1, DType::kQ4_0}) {
    for (const float bad : {nan, kInfinity, -kInfinity, 1e30f}) {
      std::vector<float> x(96, 1.0f);
      x[32 + 17] = bad;
      const auto row = Stored(backend(), dtype, x);
      const auto values = Dequantized(dtype, 1, 96, row);
      for (size_t i = 0; i < 96; ++i) {
        EXPECT_EQ(std::isfinite(values[i]), i / 32 != 1)
            << DTypeName(dtype) << ", " << bad << " at " << i;
      }
    }
  }
}

TEST_P(StoreRowsTest, TypesWithBlocksKeepTinyBlocksZero) {
  for (const float tiny : {0.0f, -0.0f, 1e-7f, 1e-30f, 0x1p-149f}) {
    const std::vector<float> x(32, tiny);
    EXPECT_EQ(Stored(backend(), DType::kQ8_0, x), std::vector<std::byte>(34))
        << tiny;
    for (const DType dtype : {DType::kQ5_1, DType::kQ4_0}) {
      for (const float value :
           Dequantized(dtype, 1, 32, Stored(backend(), dtype, x))) {
        EXPECT_NEAR(value, 0.0f, 2e-7f) << tiny;
      }
    }
  }
}

TEST_P(StoreRowsTest, RefusesOtherTypesAndPartsOfBlocks) {
  const std::vector<float> x(64);
  std::vector<std::byte> row(400);
  const int64_t offset = 0;
  const auto code = [&](DType dtype, int64_t n) {
    return backend()
        .StoreRows({x.data(), 1, n, dtype, row.data(), &offset})
        .code();
  };
  EXPECT_EQ(code(DType::kQ4_1, 32), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(DType::kQ8_0, 32), absl::StatusCode::kOk);
  for (const DType dtype : {DType::kQ8_0, DType::kQ5_1, DType::kQ4_0}) {
    EXPECT_EQ(code(dtype, 64), absl::StatusCode::kOk);
    EXPECT_EQ(code(dtype, 40), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(code(DType::kBF16, 40), absl::StatusCode::kOk);
}

TEST_P(StoreRowsTest, CopyRowsMovesRowsByOffset) {
  const std::vector<std::byte> from = {std::byte{1}, std::byte{2}, std::byte{3},
                                       std::byte{4}};
  std::vector<std::byte> to(6);
  const std::vector<int64_t> from_at = {2, 0};
  const std::vector<int64_t> to_at = {1, 4};
  ASSERT_TRUE(backend()
                  .CopyRows({from.data(), from_at.data(), to.data(),
                             to_at.data(), 2, 2})
                  .ok());
  EXPECT_EQ(to,
            (std::vector<std::byte>{std::byte{0}, std::byte{3}, std::byte{4},
                                    std::byte{0}, std::byte{1}, std::byte{2}}));
}

INSTANTIATE_TEST_SUITE_P(Backends, StoreRowsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
