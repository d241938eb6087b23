// Mixes of arrays by weights of each row, beside plain loops.
#include <algorithm>
#include <cmath>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using MixRowsTest = BackendTest;
using Floats = std::vector<float>;

// What the operation is made of; an empty array is not given.
struct Mix {
  int64_t n_out, n_in, n_rows, dim;
  float offset;
  Floats x, y, minus, weights;
};

MixRowsArgs ArgsOf(const Mix& mix, float* out) {
  const auto given = [](const Floats& values) {
    return values.empty() ? nullptr : values.data();
  };
  return {.x = given(mix.x),
          .y = given(mix.y),
          .minus = given(mix.minus),
          .weights = given(mix.weights),
          .offset = mix.offset,
          .out = out,
          .n_out = mix.n_out,
          .n_in = mix.n_in,
          .n_rows = mix.n_rows,
          .dim = mix.dim};
}

Mix RandomMix(RandomData& random, int64_t n_out, int64_t n_in, int64_t n_rows,
              int64_t dim) {
  const int64_t n = n_rows * dim;
  return {.n_out = n_out,
          .n_in = n_in,
          .n_rows = n_rows,
          .dim = dim,
          .offset = 0.75f,
          .x = random.FloatsWithin(n_out * n, 4.0f),
          .y = random.FloatsWithin(n_in * n, 4.0f),
          .minus = random.FloatsWithin(n, 4.0f),
          .weights = random.Floats(n_rows * n_out * n_in)};
}

void ExpectMixed(const Mix& mix, const Floats& out) {
  const int64_t n = mix.n_rows * mix.dim;
  const auto at = [](const Floats& values, int64_t i) {
    return values.empty() ? 0.0 : values[static_cast<size_t>(i)];
  };
  for (int64_t i = 0; i < mix.n_out * n; ++i) {
    const int64_t row = i % n / mix.dim;
    double sum = at(mix.x, i);
    double size = std::abs(sum);
    for (int64_t j = 0; j < mix.n_in; ++j) {
      const int64_t weight_at = (row * mix.n_out + i / n) * mix.n_in + j;
      const double weight = at(mix.weights, weight_at) + mix.offset;
      const double added =
          weight * (at(mix.y, j * n + i % n) - at(mix.minus, i % n));
      sum += added;
      size += std::abs(added);
    }
    ASSERT_NEAR(out[static_cast<size_t>(i)], sum,
                size * static_cast<double>(mix.n_in + 4) * 0x1p-24)
        << mix.n_in << " into " << mix.n_out << ", " << mix.n_rows
        << " rows of " << mix.dim << ", element " << i;
  }
}

TEST_P(MixRowsTest, AddsWeightedArrays) {
  RandomData random(73);
  for (const auto& [n_out, n_in] :
       {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {1, 3}, {kMaxMixed, 2}}) {
    for (const int64_t n_rows : {1, 3, 40}) {
      for (const int64_t dim : {1, 31, 128, 577}) {
        const Mix mix = RandomMix(random, n_out, n_in, n_rows, dim);
        Floats out(mix.x.size());
        ASSERT_TRUE(backend().MixRows(ArgsOf(mix, out.data())).ok());
        ExpectMixed(mix, out);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MixRowsTest, WhatIsNotGivenIsZero) {
  RandomData random(74);
  const Mix all = RandomMix(random, 3, 2, 5, 70);
  for (Floats Mix::*const part : {&Mix::x, &Mix::minus, &Mix::weights}) {
    Mix mix = all;
    (mix.*part).clear();
    Floats out(all.x.size());
    ASSERT_TRUE(backend().MixRows(ArgsOf(mix, out.data())).ok());
    ExpectMixed(mix, out);
  }
}

// One array copied, which is a sum with nothing.
TEST_P(MixRowsTest, AnArrayAloneIsCopiedToTheBit) {
  RandomData random(75);
  const Mix mix = {.n_out = 1,
                   .n_in = 1,
                   .n_rows = 3,
                   .dim = 33,
                   .offset = 1,
                   .x = {},
                   .y = random.Floats(99),
                   .minus = {},
                   .weights = {}};
  Floats out(99);
  ASSERT_TRUE(backend().MixRows(ArgsOf(mix, out.data())).ok());
  EXPECT_EQ(Bits(out), Bits(mix.y));
}

TEST_P(MixRowsTest, AnOutputMayBeAnyInput) {
  RandomData random(76);
  Mix mix = RandomMix(random, 4, 4, 3, 77);
  mix.y = mix.x;
  mix.minus.assign(mix.x.begin(), mix.x.begin() + 3 * 77);
  Floats apart(mix.x.size());
  ASSERT_TRUE(backend().MixRows(ArgsOf(mix, apart.data())).ok());
  Floats in_place = mix.x;
  MixRowsArgs args = ArgsOf(mix, in_place.data());
  args.x = args.y = args.minus = in_place.data();
  ASSERT_TRUE(backend().MixRows(args).ok());
  EXPECT_EQ(Bits(in_place), Bits(apart));
}

TEST_P(MixRowsTest, RowsAreIndependent) {
  RandomData random(77);
  constexpr int64_t kRows = 40;
  constexpr int64_t kDim = 577;
  const Mix mix = RandomMix(random, 1, 1, kRows, kDim);
  Floats together(mix.x.size());
  ASSERT_TRUE(backend().MixRows(ArgsOf(mix, together.data())).ok());
  for (int64_t r = 0; r < kRows; ++r) {
    Floats alone(kDim);
    MixRowsArgs args = ArgsOf(mix, alone.data());
    args.x += r * kDim;
    args.y += r * kDim;
    args.minus += r * kDim;
    args.weights += r;
    args.n_rows = 1;
    ASSERT_TRUE(backend().MixRows(args).ok());
    ASSERT_EQ(Bits(together.data() + r * kDim, kDim), Bits(alone));
  }
}

TEST_P(MixRowsTest, MoreArraysThanTheLimitAreRefused) {
  const Floats y(static_cast<size_t>(kMaxMixed) + 1);
  Floats out(y.size());
  const auto mix = [&](int64_t n_out, int64_t n_in) {
    return backend()
        .MixRows({.x = nullptr,
                  .y = y.data(),
                  .minus = nullptr,
                  .weights = nullptr,
                  .offset = 1,
                  .out = out.data(),
                  .n_out = n_out,
                  .n_in = n_in,
                  .n_rows = 1,
                  .dim = 1})
        .code();
  };
  EXPECT_EQ(mix(kMaxMixed, kMaxMixed), absl::StatusCode::kOk);
  for (const int64_t bad : {int64_t{0}, kMaxMixed + 1}) {
    EXPECT_EQ(mix(bad, 1), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(mix(1, bad), absl::StatusCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, MixRowsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
