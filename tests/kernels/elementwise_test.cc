// Operations that treat rows or elements one by one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using ElementwiseTest = BackendTest;

TEST_P(ElementwiseTest, PackActivationsEqualsTheReferenceToTheBit) {
  RandomData random(22);
  const auto reference = NewReferenceBackend();
  auto x = random.FloatsWithin(7 * 96, 3.0f);
  for (size_t i = 32; i < 64; ++i) x[i] = 0;       // a block of zeros
  for (size_t i = 64; i < 96; ++i) x[i] = 1e-37f;  // below the least amax
  x[200] = std::nanf("");
  x[300] = HUGE_VALF;
  std::vector<std::byte> expected(static_cast<size_t>(7 * PackedRowBytes(96)));
  auto packed = expected;
  ASSERT_TRUE(
      reference->PackActivations({x.data(), 7, 96, expected.data()}).ok());
  ASSERT_TRUE(backend().PackActivations({x.data(), 7, 96, packed.data()}).ok());
  // A number that is not one has other bits on other devices.
  for (auto* bytes : {&packed, &expected}) {
    for (int64_t row = 0; row < 7; ++row) {
      for (int64_t i = 0; i < 6; ++i) {
        std::byte* at = bytes->data() + row * PackedRowBytes(96) +
                        PackedScalesOffset(96) + i * 4;
        float value;
        std::memcpy(&value, at, 4);
        if (std::isnan(value)) std::memset(at, 0xFF, 4);
      }
    }
  }
  EXPECT_EQ(packed, expected);
}

TEST_P(ElementwiseTest, PackedActivationsAreWithinHalfAStep) {
  RandomData random(23);
  const auto x = random.FloatsWithin(64, 5.0f);
  std::vector<std::byte> packed(static_cast<size_t>(PackedRowBytes(64)));
  ASSERT_TRUE(backend().PackActivations({x.data(), 1, 64, packed.data()}).ok());
  for (size_t block = 0; block < 2; ++block) {
    float scale;
    float scaled_sum;
    std::memcpy(&scale, &packed[128 + block * 4], 4);
    std::memcpy(&scaled_sum, &packed[136 + block * 4], 4);
    double sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      int16_t q;
      std::memcpy(&q, &packed[(block * 32 + i) * 2], 2);
      sum += static_cast<double>(q) * scale;
      EXPECT_NEAR(static_cast<double>(q) * scale, x[block * 32 + i],
                  0.502 * scale);
    }
    EXPECT_NEAR(scaled_sum, sum, 1e-5);
  }
}

// A norm or an activation packs what it gives as PackActivations does, the rows
// of a task and those across tasks alike.
TEST_P(ElementwiseTest, WhatIsPackedOnTheWayIsWhatPackingGives) {
  RandomData random(25);
  for (const int64_t dim : {32, 576, 2'080}) {
    for (const int64_t n_rows : {1, 3, 40}) {
      const auto x = random.FloatsWithin(n_rows * dim, 4.0f);
      const auto y = random.Floats(n_rows * dim);
      auto out = x;
      const auto size = static_cast<size_t>(n_rows * PackedRowBytes(dim));
      std::vector<std::byte> packed(size);
      std::vector<std::byte> expected(size);
      const auto expect_packed = [&](const absl::Status& status) {
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(
            backend()
                .PackActivations({out.data(), n_rows, dim, expected.data()})
                .ok());
        EXPECT_TRUE(packed == expected) << n_rows << " rows of " << dim;
      };
      expect_packed(backend().RmsNorm({x.data(), y.data(), out.data(), n_rows,
                                       dim, 1e-5f, false, packed.data()}));
      expect_packed(
          backend().GatedActivation({x.data(), y.data(), out.data(), n_rows,
                                     dim, Activation::kSilu, packed.data()}));
    }
  }
}

TEST_P(ElementwiseTest, PackActivationsRefusesPartialBlocks) {
  const std::vector<float> x(33);
  std::vector<std::byte> packed(200);
  std::vector<float> out(33);
  for (const absl::Status& status :
       {backend().PackActivations({x.data(), 1, 33, packed.data()}),
        backend().RmsNorm({x.data(), x.data(), out.data(), 1, 33, 1e-5f, false,
                           packed.data()}),
        backend().GatedActivation({x.data(), x.data(), out.data(), 1, 33,
                                   Activation::kSilu, packed.data()})}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

struct AngleScaling {
  double scale = 1.0;
  float magnitude = 1.0f;
  const float* factors = nullptr;
  RopeRamp ramp = {};
};

std::vector<float> Angles(Backend& backend,
                          const std::vector<int64_t>& positions, int64_t n_rot,
                          const AngleScaling& scaling) {
  std::vector<float> out(positions.size() * static_cast<size_t>(n_rot));
  EXPECT_TRUE(
      backend
          .RopeAngles({positions.data(), static_cast<int64_t>(positions.size()),
                       n_rot, 10000.0, scaling.scale, scaling.factors,
                       scaling.magnitude, out.data(), scaling.ramp})
          .ok());
  return out;
}

TEST_P(ElementwiseTest, RopeAnglesAreExactAtABillionTokens) {
  const std::vector<int64_t> positions = {0, 1, 4095, 1000000000, 1000000007};
  const std::vector<float> factors = {1.0f, 2.0f, 1e30f};
  const auto out =
      Angles(backend(), positions, 6,
             {.scale = 0.125, .magnitude = 1.5f, .factors = factors.data()});
  for (size_t r = 0; r < positions.size(); ++r) {
    for (size_t p = 0; p < 3; ++p) {
      const double theta = static_cast<double>(positions[r]) * 0.125 *
                           std::pow(10000.0, -static_cast<double>(p) / 3) /
                           factors[p];
      EXPECT_NEAR(out[(r * 3 + p) * 2], 1.5 * std::cos(theta), 2e-7);
      EXPECT_NEAR(out[(r * 3 + p) * 2 + 1], 1.5 * std::sin(theta), 2e-7);
    }
  }
}

TEST_P(ElementwiseTest, RopeAnglesAreScaledAlongARamp) {
  struct {
    RopeRamp ramp;
    std::vector<double> scales;  // scales of 6 pairs
  } const cases[] = {
      {{}, {0.25, 0.25, 0.25, 0.25, 0.25, 0.25}},
      {{0, 0}, {1, 0.25, 0.25, 0.25, 0.25, 0.25}},
      {{1, 4}, {1, 1, 0.75, 0.5, 0.25, 0.25}},
      {{5, 11}, {1, 1, 1, 1, 1, 1}},
  };
  const std::vector<int64_t> positions = {3, 70'000};
  for (const auto& c : cases) {
    const auto out =
        Angles(backend(), positions, 12, {.scale = 0.25, .ramp = c.ramp});
    for (size_t r = 0; r < positions.size(); ++r) {
      for (size_t p = 0; p < 6; ++p) {
        const double theta = static_cast<double>(positions[r]) * c.scales[p] *
                             std::pow(10000.0, -static_cast<double>(p) / 6);
        EXPECT_NEAR(out[(r * 6 + p) * 2], std::cos(theta), 2e-7) << p;
        EXPECT_NEAR(out[(r * 6 + p) * 2 + 1], std::sin(theta), 2e-7) << p;
      }
    }
  }
  const int64_t position = 1;
  std::vector<float> out(2);
  EXPECT_EQ(backend()
                .RopeAngles({&position,
                             1,
                             2,
                             10000.0,
                             1.0,
                             nullptr,
                             1.0f,
                             out.data(),
                             {3, 2}})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// A ramp that is not there changes no bit of the scale.
TEST(RopeRampTest, WithoutARampThereIsTheScaleAlone) {
  for (const double scale : {1.0, 0.1, 1.0 / 3, 8.0}) {
    for (const int64_t pair : {0, 1, 255}) {
      EXPECT_EQ(RopeRamp{}.ScaleOf(pair, scale), scale);
    }
  }
}

TEST_P(ElementwiseTest, RopeRotatesPairsAndLeavesTheRest) {
  RandomData random(24);
  for (const auto& [n_rot, head_dim] :
       {std::pair<int64_t, int64_t>{2, 16}, {64, 64}, {48, 64}, {256, 256}}) {
    const std::vector<int64_t> positions = {3, 70000};
    const auto angles = Angles(backend(), positions, n_rot, {});
    const auto x = random.Floats(2 * 3 * head_dim);
    for (const RopeStyle style : {RopeStyle::kNorm, RopeStyle::kNeox}) {
      std::vector<float> out(x.size());
      ASSERT_TRUE(backend()
                      .Rope({x.data(), angles.data(), out.data(), 2, 3,
                             head_dim, n_rot, style})
                      .ok());
      auto in_place = x;
      ASSERT_TRUE(backend()
                      .Rope({in_place.data(), angles.data(), in_place.data(), 2,
                             3, head_dim, n_rot, style})
                      .ok());
      EXPECT_EQ(Bits(in_place), Bits(out));
      for (int64_t i = 0; i < 6; ++i) {
        const float* head = x.data() + i * head_dim;
        const float* rotated = out.data() + i * head_dim;
        const float* angle = angles.data() + i / 3 * n_rot;
        for (int64_t p = 0; p < n_rot / 2; ++p) {
          const int64_t a = style == RopeStyle::kNeox ? p : 2 * p;
          const int64_t b =
              style == RopeStyle::kNeox ? p + n_rot / 2 : 2 * p + 1;
          const double cosine = angle[2 * p];
          const double sine = angle[2 * p + 1];
          EXPECT_NEAR(rotated[a], head[a] * cosine - head[b] * sine, 2e-7);
          EXPECT_NEAR(rotated[b], head[a] * sine + head[b] * cosine, 2e-7);
        }
        for (int64_t c = n_rot; c < head_dim; ++c) {
          EXPECT_EQ(rotated[c], head[c]);
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, RopeLeavesWhatLiesBetweenHeads) {
  constexpr int64_t kRows = 2;
  constexpr int64_t kHeads = 3;
  constexpr int64_t kDim = 16;
  constexpr int64_t kXStride = 40;
  constexpr int64_t kOutStride = 20;
  RandomData random(27);
  const auto angles = Angles(backend(), {3, 700}, kDim, {});
  const auto x = random.Floats(kRows * kHeads * kXStride);
  std::vector<float> dense;
  for (int64_t i = 0; i < kRows * kHeads; ++i) {
    dense.insert(dense.end(), x.begin() + i * kXStride,
                 x.begin() + i * kXStride + kDim);
  }
  std::vector<float> out(kRows * kHeads * kOutStride, 7.0f);
  RopeArgs args = {dense.data(), angles.data(), dense.data(), kRows,
                   kHeads,       kDim,          kDim,         RopeStyle::kNorm};
  ASSERT_TRUE(backend().Rope(args).ok());
  args.x = x.data();
  args.x_stride = kXStride;
  args.out = out.data();
  args.out_stride = kOutStride;
  ASSERT_TRUE(backend().Rope(args).ok());
  for (int64_t i = 0; i < kRows * kHeads; ++i) {
    EXPECT_EQ(Bits(out.data() + i * kOutStride, kDim),
              Bits(dense.data() + i * kDim, kDim));
    for (int64_t gap = kDim; gap < kOutStride; ++gap) {
      EXPECT_EQ(out[static_cast<size_t>(i * kOutStride + gap)], 7.0f);
    }
  }
  args.out_stride = kDim - 1;
  EXPECT_EQ(backend().Rope(args).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ElementwiseTest, RopeRefusesMoreThanAHead) {
  float x[16] = {};
  float angles[18] = {};
  for (const int64_t n_rot : {int64_t{18}, int64_t{3}, int64_t{-2}}) {
    EXPECT_EQ(backend()
                  .Rope({x, angles, x, 1, 1, 16, n_rot, RopeStyle::kNeox})
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// The activation of x times 1.
double Expected(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  if (activation == Activation::kClampedSwish) {
    const double gate = std::min(x, 7.0);
    return 2 * gate / (1 + std::exp(-1.702 * gate));
  }
  if (activation == Activation::kRelu) return std::max(x, 0.0);
  if (activation == Activation::kSigmoid) return 1 / (1 + std::exp(-x));
  return 0.5 * x *
         (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

TEST_P(ElementwiseTest, ActivationsAreAccurateOverTheWholeRange) {
  std::vector<float> gate;
  for (float x = -60.0f; x < 60.0f; x += 0.0137f) gate.push_back(x);
  for (const float x : {0.0f, -0.0f, 1e4f, -1e4f, 1e20f, -1e20f, 1e-30f}) {
    gate.push_back(x);
  }
  const std::vector<float> up(gate.size(), 1.0f);
  for (const Activation activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwish,
        Activation::kRelu, Activation::kSigmoid}) {
    std::vector<float> out(gate.size());
    ASSERT_TRUE(
        backend()
            .GatedActivation({gate.data(), up.data(), out.data(), 1,
                              static_cast<int64_t>(gate.size()), activation})
            .ok());
    for (size_t i = 0; i < gate.size(); ++i) {
      const double y = Expected(activation, gate[i]);
      EXPECT_NEAR(out[i], y, 2e-7 + std::abs(y) * 1e-6) << gate[i];
    }
  }
}

// A gate of 1 is far from its clamp, so that up is felt alone.
TEST_P(ElementwiseTest, AClampedActivationClampsUpOnBothSides) {
  std::vector<float> up;
  for (float x = -9.0f; x < 9.0f; x += 0.37f) up.push_back(x);
  for (const float x : {-7.0f, 7.0f, 1e30f, -HUGE_VALF, HUGE_VALF}) {
    up.push_back(x);
  }
  const auto n = static_cast<int64_t>(up.size());
  const std::vector<float> gate(up.size(), 1.0f);
  std::vector<float> out(up.size());
  ASSERT_TRUE(backend()
                  .GatedActivation({gate.data(), up.data(), out.data(), 1, n,
                                    Activation::kClampedSwish})
                  .ok());
  for (size_t i = 0; i < up.size(); ++i) {
    const double factor = std::clamp<double>(up[i], -7, 7) + 1;
    EXPECT_NEAR(out[i], factor / (1 + std::exp(-1.702)), 2e-6) << up[i];
  }
}

TEST_P(ElementwiseTest, ActivationsHideNothingThatIsNoNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  // Enough of them for vectors and for what is left beside these.
  constexpr int64_t kN = 37;
  const std::vector<float> numbers(kN, 1.0f);
  const std::vector<float> none(kN, kNan);
  std::vector<float> out(kN);
  for (const Activation activation :
       {Activation::kClampedSwish, Activation::kRelu, Activation::kSigmoid}) {
    for (const auto& [gate, up] :
         {std::pair{&none, &numbers}, std::pair{&numbers, &none}}) {
      ASSERT_TRUE(backend()
                      .GatedActivation({gate->data(), up->data(), out.data(), 1,
                                        kN, activation})
                      .ok());
      for (const float x : out) EXPECT_TRUE(std::isnan(x)) << x;
    }
  }
}

TEST_P(ElementwiseTest, AnActivationDoesNotDependOnItsPlace) {
  RandomData random(26);
  const auto gate = random.FloatsWithin(9000, 6.0f);
  const auto up = random.Floats(9000);
  std::vector<float> together(9000);
  for (const Activation activation :
       {Activation::kGeluTanh, Activation::kClampedSwish}) {
    ASSERT_TRUE(backend()
                    .GatedActivation({gate.data(), up.data(), together.data(),
                                      1, 9000, activation})
                    .ok());
    for (size_t i = 0; i < 9000; i += 113) {
      std::vector<float> alone(1);  // a device cannot write to the stack
      ASSERT_TRUE(backend()
                      .GatedActivation(
                          {&gate[i], &up[i], alone.data(), 1, 1, activation})
                      .ok());
      EXPECT_EQ(std::bit_cast<uint32_t>(alone[0]),
                std::bit_cast<uint32_t>(together[i]));
    }
  }
}

// Rows of `gate` and of `up` may lie further apart than those of `out`.
TEST_P(ElementwiseTest, AnActivationReadsRowsWithGaps) {
  RandomData random(30);
  struct Rows {
    int64_t n, dim, stride;
  };
  for (const Rows& rows : {Rows{1, 32, 40}, Rows{3, 33, 64}, Rows{40, 64, 192},
                           Rows{3, 2'080, 6'240}, Rows{2, 4'128, 4'160}}) {
    const int64_t n_rows = rows.n;
    const int64_t dim = rows.dim;
    const int64_t stride = rows.stride;
    const auto gate = random.FloatsWithin(n_rows * dim, 4.0f);
    const auto wide = random.Floats(n_rows * stride);
    std::vector<float> up;
    for (int64_t r = 0; r < n_rows; ++r) {
      up.insert(up.end(), wide.begin() + r * stride,
                wide.begin() + r * stride + dim);
    }
    const bool packs = dim % kActivationBlock == 0;
    const auto size =
        packs ? static_cast<size_t>(n_rows * PackedRowBytes(dim)) : 0;
    struct Results {
      std::vector<float> out;
      std::vector<std::byte> packed;
      bool operator==(const Results&) const = default;
    };
    GatedActivationArgs args = {.gate = gate.data(),
                                .up = up.data(),
                                .out = nullptr,
                                .n_rows = n_rows,
                                .dim = dim,
                                .activation = Activation::kGeluTanh};
    const auto gated = [&] {
      Results to = {gate, std::vector<std::byte>(size)};
      args.out = to.out.data();
      args.packed = packs ? to.packed.data() : nullptr;
      EXPECT_TRUE(backend().GatedActivation(args).ok());
      return to;
    };
    const Results dense = gated();
    args.up = wide.data();
    args.up_stride = stride;
    EXPECT_TRUE(gated() == dense) << n_rows << " rows of " << dim;
    // What was up is the gate now.
    args.gate = up.data();
    args.up = gate.data();
    args.up_stride = 0;
    const Results swapped = gated();
    args.gate = wide.data();
    args.gate_stride = stride;
    EXPECT_TRUE(gated() == swapped) << n_rows << " rows of " << dim;
  }
}

TEST_P(ElementwiseTest, AnActivationRefusesRowsThatOverlap) {
  std::vector<float> x(64);
  for (const auto& [up_stride, gate_stride] :
       {std::pair{31, 0}, std::pair{0, 31}}) {
    EXPECT_EQ(backend()
                  .GatedActivation({x.data(), x.data(), x.data(), 2, 32,
                                    Activation::kSilu, nullptr, up_stride,
                                    gate_stride})
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ElementwiseTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
