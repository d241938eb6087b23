// Norms of rows.
#include <cmath>
#include <numeric>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using RmsNormTest = BackendTest;

TEST_P(RmsNormTest, MatchesADoubleLoop) {
  RandomData random(20);
  for (const int64_t dim : {1, 3, 7, 8, 15, 16, 17, 33, 576, 2048}) {
    const auto x = random.FloatsWithin(3 * dim, 4.0f);
    const auto weight = random.Floats(dim);
    for (const bool accumulate : {false, true}) {
      const auto before = random.Floats(3 * dim);
      auto out = before;
      ASSERT_TRUE(backend()
                      .RmsNorm({x.data(), weight.data(), out.data(), 3, dim,
                                1e-5f, accumulate})
                      .ok());
      for (int64_t i = 0; i < 3 * dim; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < dim; ++c) {
          const double value = x[static_cast<size_t>(i / dim * dim + c)];
          sum += value * value;
        }
        const auto at = static_cast<size_t>(i);
        double y = x[at] / std::sqrt(sum / static_cast<double>(dim) + 1e-5) *
                   weight[static_cast<size_t>(i % dim)];
        const double size = std::abs(y);
        if (accumulate) y += before[at];
        // Lanes of at most dim / 8 positive terms, and four roundings.
        const double steps = static_cast<double>(dim) / 16 + 8;
        EXPECT_NEAR(out[at], y, (size + std::abs(y)) * steps * 0x1p-24);
      }
    }
  }
}

TEST_P(RmsNormTest, MaySubtractMeans) {
  RandomData random(30);
  for (const int64_t dim : {1, 3, 16, 33, 576, 2048}) {
    auto x = random.FloatsWithin(3 * dim, 4.0f);
    for (float& value : x) value += 2;
    const auto weight = random.Floats(dim);
    std::vector<float> out(x.size());
    ASSERT_TRUE(backend()
                    .RmsNorm({.x = x.data(),
                              .weight = weight.data(),
                              .out = out.data(),
                              .n_rows = 3,
                              .dim = dim,
                              .eps = 1e-2f,
                              .accumulate = false,
                              .subtracts_mean = true})
                    .ok());
    for (int64_t i = 0; i < 3 * dim; ++i) {
      const auto row = x.begin() + i / dim * dim;
      const auto n = static_cast<double>(dim);
      const double mean = std::accumulate(row, row + dim, 0.0) / n;
      double sum = 0;
      for (auto value = row; value != row + dim; ++value) {
        sum += (*value - mean) * (*value - mean);
      }
      const double size = std::sqrt(sum / n + 1e-2);
      const auto at = static_cast<size_t>(i);
      const double y =
          (x[at] - mean) / size * weight[static_cast<size_t>(i % dim)];
      // Lanes of at most dim / 8 terms of at most 6, and a few roundings.
      const double steps = n / 16 + 8;
      EXPECT_NEAR(out[at], y, (6 / size + std::abs(y)) * steps * 0x1p-24);
    }
  }
}

TEST_P(RmsNormTest, ReadsRowsWithGaps) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kDim = 48;
  constexpr int64_t kStride = 96;
  RandomData random(31);
  const auto wide = random.Floats(kRows * kStride);
  const auto weight = random.Floats(kDim);
  std::vector<float> x;
  for (int64_t r = 0; r < kRows; ++r) {
    x.insert(x.end(), wide.begin() + r * kStride,
             wide.begin() + r * kStride + kDim);
  }
  std::vector<float> dense(x.size());
  std::vector<float> out(x.size());
  RmsNormArgs args = {.x = x.data(),
                      .weight = weight.data(),
                      .out = dense.data(),
                      .n_rows = kRows,
                      .dim = kDim,
                      .eps = 1e-5f,
                      .accumulate = false};
  ASSERT_TRUE(backend().RmsNorm(args).ok());
  args.x = wide.data();
  args.out = out.data();
  args.x_stride = kStride;
  ASSERT_TRUE(backend().RmsNorm(args).ok());
  EXPECT_EQ(out, dense);
  args.x_stride = kDim - 1;
  EXPECT_TRUE(absl::IsInvalidArgument(backend().RmsNorm(args)));
}

TEST_P(RmsNormTest, WithoutAWeightHasTheBitsOfOnes) {
  RandomData random(28);
  for (const int64_t dim : {1, 17, 64, 512, 2'080}) {
    const auto x = random.FloatsWithin(3 * dim, 4.0f);
    const auto before = random.Floats(3 * dim);
    const std::vector<float> ones(static_cast<size_t>(dim), 1.0f);
    for (const bool accumulate : {false, true}) {
      const auto normed = [&](const float* weight) {
        auto out = before;
        EXPECT_TRUE(backend()
                        .RmsNorm({x.data(), weight, out.data(), 3, dim, 1e-5f,
                                  accumulate})
                        .ok());
        return out;
      };
      EXPECT_EQ(Bits(normed(nullptr)), Bits(normed(ones.data())));
    }
  }
}

TEST_P(RmsNormTest, ScalesWhatItWrites) {
  RandomData random(29);
  constexpr float kScale = 0.8125f;
  for (const int64_t dim : {1, 33, 96, 640}) {
    const auto x = random.FloatsWithin(3 * dim, 4.0f);
    const auto weight = random.Floats(dim);
    const auto before = random.Floats(3 * dim);
    for (const bool accumulate : {false, true}) {
      const auto normed = [&](float scale) {
        auto out = before;
        EXPECT_TRUE(backend()
                        .RmsNorm({x.data(), weight.data(), out.data(), 3, dim,
                                  1e-5f, accumulate, nullptr, scale})
                        .ok());
        return out;
      };
      const auto plain = normed(1);
      const auto scaled = normed(kScale);
      for (size_t i = 0; i < plain.size(); ++i) {
        // The error of the plain product, which the reference does not round
        // before.
        EXPECT_NEAR(scaled[i], plain[i] * kScale,
                    std::abs(plain[i]) * 0x1p-23f);
      }
    }
  }
}

TEST_P(RmsNormTest, GivesARowTheSizeOfAnother) {
  RandomData random(30);
  for (const int64_t dim : {1, 33, 96, 640}) {
    const auto n = static_cast<size_t>(dim);
    const auto x = random.FloatsWithin(3 * dim, 4.0f);
    const auto like = random.FloatsWithin(3 * dim, 0.5f);
    const auto weight = random.Floats(dim);
    const auto before = random.Floats(3 * dim);
    for (const bool accumulate : {false, true}) {
      auto out = before;
      ASSERT_TRUE(backend()
                      .RmsNorm({.x = x.data(),
                                .weight = weight.data(),
                                .out = out.data(),
                                .n_rows = 3,
                                .dim = dim,
                                .eps = 0,
                                .accumulate = accumulate,
                                .like = like.data()})
                      .ok());
      for (size_t i = 0; i < out.size(); ++i) {
        double sum = 0;
        double like_sum = 0;
        for (size_t c = i / n * n; c < i / n * n + n; ++c) {
          sum += static_cast<double>(x[c]) * x[c];
          like_sum += static_cast<double>(like[c]) * like[c];
        }
        const double y = x[i] * weight[i % n] * std::sqrt(like_sum / sum);
        const double wanted = accumulate ? before[i] + y : y;
        // The errors of two sums, and six roundings.
        const double steps = static_cast<double>(dim) / 8 + 12;
        EXPECT_NEAR(out[i], wanted,
                    (std::abs(y) + std::abs(wanted)) * steps * 0x1p-24);
      }
    }
  }
}

TEST_P(RmsNormTest, WorksInPlaceAndRowsAreIndependent) {
  RandomData random(21);
  constexpr int64_t kDim = 577;
  const auto x = random.Floats(64 * kDim);
  const auto weight = random.Floats(kDim);
  auto together = x;
  ASSERT_TRUE(backend()
                  .RmsNorm({together.data(), weight.data(), together.data(), 64,
                            kDim, 1e-6f, false})
                  .ok());
  for (int64_t r = 0; r < 64; ++r) {
    std::vector<float> alone(kDim);
    ASSERT_TRUE(backend()
                    .RmsNorm({x.data() + r * kDim, weight.data(), alone.data(),
                              1, kDim, 1e-6f, false})
                    .ok());
    ASSERT_EQ(Bits(together.data() + r * kDim, kDim), Bits(alone));
  }
}

TEST_P(RmsNormTest, AddNormHasTheBitsOfItsParts) {
  RandomData random(27);
  for (const int64_t dim : {1, 33, 96, 640, 2'080}) {
    for (const int64_t n_rows : {1, 3, 40}) {
      const auto x = random.FloatsWithin(n_rows * dim, 4.0f);
      const auto residual = random.Floats(n_rows * dim);
      const auto weight = random.Floats(dim);
      const auto next_weight = random.Floats(dim);
      const bool packs = dim % kActivationBlock == 0;
      const auto size =
          packs ? static_cast<size_t>(n_rows * PackedRowBytes(dim)) : 0;
      // Norms in place of `x`.
      struct Results {
        std::vector<float> x, residual;
        std::vector<std::byte> packed;
        bool operator==(const Results&) const = default;
      };
      Results parts = {x, residual, std::vector<std::byte>(size)};
      Results both = parts;
      const auto args = [&](Results& to) {
        return AddNormArgs{
            {to.x.data(), weight.data(), to.residual.data(), n_rows, dim, 1e-5f,
             true, nullptr, n_rows == 3 ? 0.75f : 1.0f},
            {to.residual.data(), next_weight.data(), to.x.data(), n_rows, dim,
             1e-6f, false, packs ? to.packed.data() : nullptr}};
      };
      ASSERT_TRUE(backend().RmsNorm(args(parts).add).ok());
      ASSERT_TRUE(backend().RmsNorm(args(parts).norm).ok());
      ASSERT_TRUE(backend().AddNorm(args(both)).ok());
      EXPECT_TRUE(both == parts) << n_rows << " rows of " << dim;
      EXPECT_FALSE(both.residual == residual);
    }
  }
}

TEST_P(RmsNormTest, AddNormRefusesNormsOfDifferentRows) {
  std::vector<float> x(64), residual(64);
  const RmsNormArgs add = {x.data(), x.data(), residual.data(), 2, 32,
                           1e-5f,    true};
  const RmsNormArgs norm = {residual.data(), x.data(), x.data(), 2, 32,
                            1e-5f,           false};
  AddNormArgs other_rows = {add, norm};
  other_rows.norm.n_rows = 1;
  AddNormArgs other_input = {add, norm};
  other_input.norm.x = x.data();
  AddNormArgs no_sum = {add, norm};
  no_sum.add.accumulate = false;
  for (const AddNormArgs& args : {other_rows, other_input, no_sum}) {
    EXPECT_EQ(backend().AddNorm(args).code(),
              absl::StatusCode::kInvalidArgument);
  }
}
INSTANTIATE_TEST_SUITE_P(Backends, RmsNormTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
