// Products of which few outputs are looked at: those are what MatMul computes,
// bit for bit, and the others are either that or not computed.
#include <algorithm>
#include <functional>
#include <set>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/pack_weights.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kRows = cpu::kMinSplitRows + 5;  // the last panel is not full
constexpr int64_t kCols = 96;

// Few rows have large scales, as few tokens of a vocabulary are likely.
std::vector<std::byte> Vocabulary(RandomData& random) {
  std::vector<std::byte> bytes = random.Weights(DType::kQ8_0, kRows, kCols);
  for (int64_t b = 0; b < kRows * kCols / 32; ++b) {
    const bool is_large = random.Integer(0, 99) == 0;
    const uint16_t d =
        F16FromF32(random.Uniform(0.5f, 1.0f) * (is_large ? 0.04f : 0.01f));
    std::memcpy(bytes.data() + b * 34, &d, 2);
  }
  return bytes;
}

class MatMulTopTest : public BackendTest {
 protected:
  std::vector<float> Product(const std::vector<float>& x, int64_t n_rows,
                             std::span<const TopOutputs> top) {
    std::vector<std::byte> packed(
        static_cast<size_t>(n_rows * PackedRowBytes(matrix_.view.cols)));
    EXPECT_TRUE(backend()
                    .PackActivations(
                        {x.data(), n_rows, matrix_.view.cols, packed.data()})
                    .ok());
    std::vector<float> out(static_cast<size_t>(n_rows * matrix_.view.rows));
    const absl::Status status = backend().MatMul({.w = matrix_.view,
                                                  .x = x.data(),
                                                  .packed = packed.data(),
                                                  .out = out.data(),
                                                  .n_rows = n_rows,
                                                  .accumulate = false,
                                                  .top = top,
                                                  .soft_cap = soft_cap_});
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  void Load(const std::vector<std::byte>& bytes) {
    LoadShape(bytes, kRows, kCols);
  }
  void LoadShape(const std::vector<std::byte>& bytes, int64_t rows,
                 int64_t cols) {
    matrix_ = Store(backend(), DType::kQ8_0, rows, cols, bytes);
  }

  // How many outputs of a row were not computed; the others must be those of
  // `all`, and enough of them.
  int64_t CheckRow(const float* out, const float* all, const TopOutputs& top) {
    const int64_t n = matrix_.view.rows;
    std::vector<float> sorted(all, all + n);
    std::nth_element(sorted.begin(), sorted.begin() + top.k - 1, sorted.end(),
                     std::greater<>());
    const float least = sorted[static_cast<size_t>(top.k - 1)];
    const std::set<int32_t> always(top.always.begin(), top.always.end());
    int64_t n_left_out = 0;
    for (int64_t r = 0; r < n; ++r) {
      const bool is_wanted =
          all[r] >= least || always.count(static_cast<int32_t>(r)) > 0;
      if (out[r] == kNotComputed && !is_wanted) {
        ++n_left_out;
        continue;
      }
      EXPECT_EQ(Bits(out + r, 1), Bits(all + r, 1)) << "output " << r;
    }
    return n_left_out;
  }

  StoredMatrix matrix_;
  float soft_cap_ = 0;
};

TEST_P(MatMulTopTest, TheLargestOutputsAndThoseAskedForAreMatMuls) {
  RandomData random(11);
  Load(Vocabulary(random));
  // At the most rows and candidates, and one past them: all is computed then.
  for (const int64_t n_rows :
       {int64_t{1}, cpu::kMaxTopRows, cpu::kMaxTopRows + 1}) {
    for (const int64_t k :
         {int64_t{1}, int64_t{10}, kMaxCandidates, kMaxCandidates + 1}) {
      const auto x = random.Floats(n_rows * kCols);
      const auto all = Product(x, n_rows, {});
      std::vector<int32_t> always = {0, 15, 16, kRows - 1};
      for (int i = 0; i < 20; ++i) {
        always.push_back(static_cast<int32_t>(random.Integer(0, kRows - 1)));
      }
      const std::vector<TopOutputs> top(static_cast<size_t>(n_rows),
                                        {k, always});
      const auto out = Product(x, n_rows, top);
      int64_t n_left_out = 0;
      for (int64_t m = 0; m < n_rows; ++m) {
        n_left_out += CheckRow(out.data() + m * kRows, all.data() + m * kRows,
                               top[static_cast<size_t>(m)]);
      }
      const bool may_leave_out =
          n_rows <= cpu::kMaxTopRows && k <= kMaxCandidates &&
          GetParam() != kReferenceName && !IsCuda(GetParam());
      if (!may_leave_out) {
        EXPECT_EQ(n_left_out, 0);
      } else if (k == 1) {
        EXPECT_GT(n_left_out, n_rows * kRows / 2);
      }
    }
  }
}

// A cap brings large outputs together, until many are equal: all of those count
// that are as large as the k-th one after it.
TEST_P(MatMulTopTest, TheLargestOutputsAfterASoftCapAreAllThere) {
  RandomData random(18);
  Load(Vocabulary(random));
  const auto x = random.FloatsWithin(kCols, 4.0f);
  for (const float cap : {0.001f, 0.05f, 0.5f, 3.0f, 50.0f}) {
    soft_cap_ = cap;
    const auto all = Product(x, 1, {});
    const float largest = *std::max_element(all.begin(), all.end());
    EXPECT_LE(largest, cap);
    for (const int64_t k : {int64_t{1}, int64_t{10}, kMaxCandidates}) {
      const std::vector<int32_t> always = {0, 15, 16, kRows - 1};
      const TopOutputs top = {k, always};
      const auto out = Product(x, 1, {&top, 1});
      CheckRow(out.data(), all.data(), top);
    }
  }
}

TEST_P(MatMulTopTest, EachRowHasItsOwnNumberOfOutputs) {
  RandomData random(12);
  Load(Vocabulary(random));
  const auto x = random.Floats(2 * kCols);
  const auto all = Product(x, 2, {});
  const std::vector<int32_t> always = {77, 4'000};
  const std::vector<TopOutputs> top = {{1, {}}, {40, always}};
  const auto out = Product(x, 2, top);
  CheckRow(out.data(), all.data(), top[0]);
  CheckRow(out.data() + kRows, all.data() + kRows, top[1]);
}

TEST_P(MatMulTopTest, OutputsThatAreTheSameAreAllThere) {
  RandomData random(13);
  std::vector<std::byte> bytes = Vocabulary(random);
  // Every 100th row is the first one: whichever is the largest.
  constexpr int64_t kRowBytes = kCols / 32 * 34;
  for (int64_t r = 100; r < kRows; r += 100) {
    std::copy_n(bytes.begin(), kRowBytes, bytes.begin() + r * kRowBytes);
  }
  Load(bytes);
  // Activations that look like that row make it the largest.
  const auto w = Dequantized(DType::kQ8_0, 1, kCols, bytes);
  const auto all = Product(w, 1, {});
  const TopOutputs top = {1, {}};
  const auto out = Product(w, 1, {&top, 1});
  ASSERT_EQ(*std::max_element(all.begin(), all.end()), all[0]);
  for (size_t r = 0; r < static_cast<size_t>(kRows); r += 100) {
    EXPECT_EQ(out[r], all[0]) << r;
  }
}

// The bounds hold to the last bit where low parts are as large as they can be,
// scales negative, and outputs cancel to nearly nothing.
// High parts that are the same rule nothing out: after an eighth of the panels,
// the others are computed without bounds.
TEST_P(MatMulTopTest, OutputsThatAreAlikeAreComputedWithoutBounds) {
  RandomData random(19);
  std::vector<std::byte> bytes = random.Weights(DType::kQ8_0, kRows, kCols);
  const uint16_t d = F16FromF32(0.01f);
  for (size_t block = 0; block < bytes.size(); block += 34) {
    std::memcpy(bytes.data() + block, &d, 2);
    for (size_t i = 2; i < 34; ++i) bytes[block + i] &= std::byte{15};
  }
  Load(bytes);
  const auto x = random.Floats(kCols);
  const auto all = Product(x, 1, {});
  const TopOutputs top = {1, {}};
  const auto out = Product(x, 1, {&top, 1});
  EXPECT_LT(CheckRow(out.data(), all.data(), top), kRows / 4);
}

TEST_P(MatMulTopTest, BoundsHoldAtTheEndsOfTheirRange) {
  RandomData random(14);
  constexpr int64_t kWide = 1'024;
  std::vector<std::byte> bytes(
      static_cast<size_t>(cpu::kMinSplitRows * kWide / 32 * 34));
  for (size_t b = 0; b < bytes.size() / 34; ++b) {
    const uint16_t d = F16FromF32(random.Integer(0, 1) == 0 ? -0.01f : 0.01f);
    std::memcpy(&bytes[b * 34], &d, 2);
    const auto end = static_cast<std::byte>(random.Integer(0, 15) << 4);
    for (size_t i = 2; i < 34; ++i) {
      bytes[b * 34 + i] = end | (i % 2 == 0 ? std::byte{15} : std::byte{0});
    }
  }
  LoadShape(bytes, cpu::kMinSplitRows, kWide);
  std::vector<float> x(kWide);
  for (size_t c = 0; c < x.size(); ++c) x[c] = c % 2 == 0 ? 1.0f : -1.0f;
  x[5] = 900.0f;  // one block counts for most
  const auto all = Product(x, 1, {});
  for (const int64_t k : {int64_t{1}, kMaxCandidates}) {
    const TopOutputs top = {k, {}};
    const auto out = Product(x, 1, {&top, 1});
    CheckRow(out.data(), all.data(), top);
  }
}

TEST_P(MatMulTopTest, NumbersThatAreNotFiniteAreNeverRuledOut) {
  RandomData random(15);
  std::vector<std::byte> bytes = Vocabulary(random);
  constexpr int64_t kRowBytes = kCols / 32 * 34;
  const uint16_t nan = 0x7E00;
  std::memcpy(&bytes[static_cast<size_t>(31'000 * kRowBytes)], &nan, 2);
  Load(bytes);
  auto x = random.Floats(kCols);
  const TopOutputs top = {1, {}};
  auto out = Product(x, 1, {&top, 1});
  EXPECT_TRUE(std::isnan(out[31'000]));
  x[40] = std::nanf("");
  out = Product(x, 1, {&top, 1});
  for (const float value : out) ASSERT_TRUE(std::isnan(value));
}

TEST_P(MatMulTopTest, RowsOfASplitMatrixAreGathered) {
  RandomData random(16);
  const std::vector<std::byte> bytes = Vocabulary(random);
  Load(bytes);
  const std::vector<int32_t> tokens = {0, 15, 16, 31'999, kRows - 1};
  std::vector<float> out(tokens.size() * kCols);
  ASSERT_TRUE(
      backend()
          .GetRows({matrix_.view, tokens.data(),
                    static_cast<int64_t>(tokens.size()), 1.0f, out.data()})
          .ok());
  const auto w = Dequantized(DType::kQ8_0, kRows, kCols, bytes);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const float* row = w.data() + tokens[i] * kCols;
    EXPECT_EQ(Bits(out.data() + i * kCols, kCols), Bits(row, kCols));
  }
}

TEST_P(MatMulTopTest, WhatMakesNoSenseIsRefused) {
  RandomData random(17);
  Load(Vocabulary(random));
  const auto x = random.Floats(2 * kCols);
  std::vector<float> out(2 * kRows);
  const auto refuses = [&](const std::vector<TopOutputs>& top,
                           bool accumulate) {
    return backend()
               .MatMul({matrix_.view, x.data(), nullptr, out.data(), 2,
                        accumulate, top})
               .code() == absl::StatusCode::kInvalidArgument;
  };
  const std::vector<int32_t> last = {kRows - 1};
  const std::vector<int32_t> past = {kRows};
  const std::vector<int32_t> negative = {-1};
  EXPECT_FALSE(refuses({{1, last}, {1, {}}}, false));
  EXPECT_TRUE(refuses({{1, last}, {1, {}}}, true));
  EXPECT_TRUE(refuses({{1, last}}, false));
  EXPECT_TRUE(refuses({{0, {}}, {1, {}}}, false));
  EXPECT_TRUE(refuses({{1, past}, {1, {}}}, false));
  EXPECT_TRUE(refuses({{1, {}}, {1, negative}}, false));
}

TEST(SplitTest, LargeTablesOfQ80AreSplit) {
  using cpu::IsSplit;
  EXPECT_TRUE(IsSplit(DType::kQ8_0, cpu::kMinSplitRows, cpu::kMaxSplitCols));
  EXPECT_FALSE(IsSplit(DType::kQ8_0, cpu::kMinSplitRows - 1, 64));
  EXPECT_FALSE(
      IsSplit(DType::kQ8_0, cpu::kMinSplitRows, cpu::kMaxSplitCols + 32));
  EXPECT_FALSE(IsSplit(DType::kQ4_0, cpu::kMinSplitRows, 64));
}

INSTANTIATE_TEST_SUITE_P(Paths, MatMulTopTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
