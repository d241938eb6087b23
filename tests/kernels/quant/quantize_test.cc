// Quantisation: bit-equal to llama.cpp's Python package where a format says
// what a block is (tests/testdata/make_quantized.py), and no worse than a plain
// search where it does not.
#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/decode_hex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/float16.h"

namespace plimsoll::kernels {
namespace {

using ::testing::HasSubstr;

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                            DType::kQ8_0, DType::kQ4_0, DType::kQ4_K,
                            DType::kQ6_K};

std::vector<float> Normal(int64_t n, float deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = normal(generator);
  return x;
}

// What is left of a row after it was quantised.
std::vector<float> Stored(DType dtype, const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<std::byte> bytes(static_cast<size_t>(*RowBytes(dtype, n)));
  std::vector<float> out(x.size());
  const absl::Status status = QuantizeRow(dtype, x.data(), n, bytes.data());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(DequantizeRow(dtype, bytes.data(), n, out.data()).ok());
  return out;
}

double SquaredError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double rest = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += rest * rest;
  }
  return sum;
}

// The root of the squared error over that of the values themselves.
double RelativeError(DType dtype, const std::vector<float>& x) {
  const std::vector<float> zeros(x.size());
  return std::sqrt(SquaredError(x, Stored(dtype, x)) / SquaredError(x, zeros));
}

double RoundedF16(double value) {
  return static_cast<double>(F32FromF16(F16FromF32(static_cast<float>(value))));
}

// The squared error of x[0, n) as a * q - b, q in [low, high].
double GridError(const float* x, int n, double a, double b, int low, int high) {
  double sum = 0;
  for (int e = 0; e < n; ++e) {
    const double wanted = static_cast<double>(x[e]) + b;
    double q = a > 0 ? std::round(wanted / a) : 0;
    q = std::clamp(q, static_cast<double>(low), static_cast<double>(high));
    sum += (wanted - a * q) * (wanted - a * q);
  }
  return sum;
}

// A plain search: the block's scales come from the extremes of its sub-blocks,
// and every integer factor of them is tried.
double PlainErrorOfQ6K(const float* x) {
  double peak = 0;
  for (int e = 0; e < 256; ++e) {
    peak = std::max(peak, std::abs(static_cast<double>(x[e])));
  }
  const double d = RoundedF16(peak / 31 / 127);
  double sum = 0;
  for (int j = 0; j < 16; ++j) {
    double least = std::numeric_limits<double>::infinity();
    for (int s = 0; s <= 127; ++s) {
      least = std::min(least, GridError(x + 16 * j, 16, d * s, 0, -32, 31));
    }
    sum += least;
  }
  return sum;
}

// Tries every factor of the scale with the one of the sub-block's own minimum,
// or with every factor of the minimum.
double PlainErrorOfQ4K(const float* x, bool tries_minima) {
  double largest_range = 0;
  double largest_min = 0;
  for (int j = 0; j < 8; ++j) {
    const auto [low, high] = std::minmax_element(x + 32 * j, x + 32 * j + 32);
    const double min = -std::min(static_cast<double>(*low), 0.0);
    largest_min = std::max(largest_min, min);
    largest_range = std::max(largest_range, static_cast<double>(*high) + min);
  }
  const double d = RoundedF16(largest_range / 15 / 63);
  const double dmin = RoundedF16(largest_min / 63);
  double sum = 0;
  for (int j = 0; j < 8; ++j) {
    const double min = std::max(
        -static_cast<double>(*std::min_element(x + 32 * j, x + 32 * j + 32)),
        0.0);
    const int nearest =
        dmin > 0 ? std::min(static_cast<int>(std::round(min / dmin)), 63) : 0;
    double least = std::numeric_limits<double>::infinity();
    for (int s = 0; s <= 63; ++s) {
      for (int m = tries_minima ? 0 : nearest;
           m <= (tries_minima ? 63 : nearest); ++m) {
        least =
            std::min(least, GridError(x + 32 * j, 32, d * s, dmin * m, 0, 15));
      }
    }
    sum += least;
  }
  return sum;
}

TEST(QuantizeTest, HasTheBitsOfAnotherImplementation) {
  std::ifstream file("tests/testdata/quantized.txt");
  std::string name;
  std::string values;
  std::string blocks;
  int n_rows = 0;
  while (file >> name >> values >> blocks) {
    const DTypeInfo* info = FindDType(name);
    ASSERT_NE(info, nullptr) << name;
    const std::string bytes = DecodeHex(values);
    std::vector<float> x(bytes.size() / sizeof(float));
    std::memcpy(x.data(), bytes.data(), bytes.size());
    std::string out(blocks.size() / 2, '\0');
    ASSERT_TRUE(QuantizeRow(info->dtype, x.data(),
                            static_cast<int64_t>(x.size()),
                            reinterpret_cast<std::byte*>(out.data()))
                    .ok());
    EXPECT_EQ(absl::BytesToHexString(out), blocks) << name;
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 20);
}

// The bounds are those of normal values, some 5 % above what was measured.
TEST(QuantizeTest, LosesLittle) {
  const std::vector<float> x = Normal(256 * 64, 0.02f, 1);
  EXPECT_EQ(RelativeError(DType::kF32, x), 0);
  EXPECT_LT(RelativeError(DType::kF16, x), 0.0003);
  EXPECT_LT(RelativeError(DType::kBF16, x), 0.002);
  EXPECT_LT(RelativeError(DType::kQ8_0, x), 0.006);
  EXPECT_LT(RelativeError(DType::kQ6_K, x), 0.02);
  EXPECT_LT(RelativeError(DType::kQ4_K, x), 0.08);
  EXPECT_LT(RelativeError(DType::kQ4_0, x), 0.1);
}

TEST(QuantizeTest, IsNoWorseThanAPlainSearch) {
  double own_6 = 0;
  double plain_6 = 0;
  double own_4 = 0;
  double plain_4 = 0;
  double best_4 = 0;
  for (unsigned seed = 1; seed <= 16; ++seed) {
    std::vector<float> x = Normal(256, 0.02f, seed);
    // A block with an outlier, and one of values that are not centred.
    if (seed % 4 == 2) x[seed] = 0.5f;
    if (seed % 4 == 3) {
      for (float& value : x) value += 0.03f;
    }
    own_6 += SquaredError(x, Stored(DType::kQ6_K, x));
    plain_6 += PlainErrorOfQ6K(x.data());
    own_4 += SquaredError(x, Stored(DType::kQ4_K, x));
    plain_4 += PlainErrorOfQ4K(x.data(), /*tries_minima=*/false);
    best_4 += PlainErrorOfQ4K(x.data(), /*tries_minima=*/true);
  }
  EXPECT_LE(own_6, plain_6);
  EXPECT_LE(own_4, plain_4);
  // Trying all 4,096 pairs for each sub-block would take far longer.
  EXPECT_LE(own_4, 1.07 * best_4);
  std::printf(
      "squared error beside a plain search: Q6_K %.3f, Q4_K %.3f (of the best "
      "%.3f)\n",
      own_6 / plain_6, own_4 / plain_4, own_4 / best_4);
}

TEST(QuantizeTest, KeepsWhatTheTypeCanHold) {
  std::vector<float> x(256);
  for (const DType dtype : kTypes) {
    EXPECT_EQ(Stored(dtype, x), x) << DTypeName(dtype);  // zeros
  }
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int>(i % 64) - 32);
    if (i % 16 == 0) x[i] = -32;
  }
  EXPECT_EQ(Stored(DType::kQ6_K, x), x);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 16) * 63 - 63;
  }
  EXPECT_EQ(Stored(DType::kQ4_K, x), x);
}

TEST(QuantizeTest, TinyAndHugeBlocksStayFinite) {
  for (const DType dtype : kTypes) {
    for (const float deviation : {1e-40f, 1e-30f, 1e-12f, 1e-6f, 1e4f}) {
      for (const float value : Stored(dtype, Normal(256, deviation, 1))) {
        ASSERT_TRUE(std::isfinite(value)) << DTypeName(dtype);
      }
    }
  }
}

TEST(QuantizeTest, RefusesWhatNoBlockCanHold) {
  std::vector<std::byte> out(1'024);
  std::vector<float> x(256);
  const auto quantize = [&](DType dtype) {
    return QuantizeRow(dtype, x.data(), 256, out.data());
  };
  EXPECT_TRUE(absl::IsUnimplemented(quantize(DType::kQ5_K)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      QuantizeRow(DType::kQ6_K, x.data(), 128, out.data())));
  x[77] = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : kTypes) {
    const absl::Status status = quantize(dtype);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << DTypeName(dtype);
    EXPECT_THAT(std::string(status.message()), HasSubstr("column 77"));
  }
  x[77] = std::numeric_limits<float>::max();
  for (const DType dtype : kTypes) {
    EXPECT_EQ(quantize(dtype).ok(), dtype == DType::kF32) << DTypeName(dtype);
  }
  x[77] = 65'504;
  EXPECT_TRUE(quantize(DType::kF16).ok());
  x[77] = 65'520;
  EXPECT_TRUE(absl::IsOutOfRange(quantize(DType::kF16)));
}

}  // namespace
}  // namespace plimsoll::kernels
