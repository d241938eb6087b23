// Two products and their gate as one operation: the bytes of the three one
// after the other, on every backend, whether they are fused or not.
#include <array>
#include <limits>

#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/mat_mul/products.h"

namespace plimsoll::kernels {
namespace {

// What both ways are given.
struct Given {
  DType gate = DType::kQ4_0;
  DType up = DType::kQ4_0;
  int64_t n_rows = 1;
  int64_t outputs = 64;
  int64_t cols = 64;
  Activation activation = Activation::kGeluTanh;
  bool has_scales = false;
};

class GatedMatMulTest : public BackendTest {
 protected:
  // The bytes of the packed result of the operation beside those of its parts.
  // What the products read is where the result is to be packed.
  void ExpectTheBytesOfItsParts(const Given& given, bool keeps_floats) {
    SCOPED_TRACE(absl::StrCat(
        DTypeName(given.gate), " and ", DTypeName(given.up), ", ", given.n_rows,
        " rows, ", given.outputs, " outputs, ", given.cols, " columns"));
    RandomData random(41);
    auto gate = Store(backend(), given.gate, given.outputs, given.cols,
                      random.Weights(given.gate, given.outputs, given.cols));
    auto up = Store(backend(), given.up, given.outputs, given.cols,
                    random.Weights(given.up, given.outputs, given.cols));
    const StoredScale scales(backend(), {0.3f, -1.7f});
    if (given.has_scales) {
      gate.view.scale = scales.data();
      up.view.scale = scales.data() + 1;
    }
    const auto x = random.FloatsWithin(given.n_rows * given.cols, 3.0f);
    std::vector<std::byte> input =
        Packed(std::max(given.cols, given.outputs), given.n_rows);
    ASSERT_TRUE(
        backend()
            .PackActivations({x.data(), given.n_rows, given.cols, input.data()})
            .ok());
    const size_t n = static_cast<size_t>(given.n_rows * given.outputs);
    const auto product = [&](const WeightMatrix& w, std::vector<float>& out) {
      return MatMulArgs{w,          x.data(),     input.data(),
                        out.data(), given.n_rows, false};
    };

    std::vector<float> expected(n);
    std::vector<float> factor(n);
    std::vector<std::byte> expected_packed =
        Packed(given.outputs, given.n_rows);
    ASSERT_TRUE(backend()
                    .MatMuls(std::array{product(gate.view, expected),
                                        product(up.view, factor)})
                    .ok());
    ASSERT_TRUE(
        backend()
            .GatedActivation({expected.data(), factor.data(), expected.data(),
                              given.n_rows, given.outputs, given.activation,
                              expected_packed.data()})
            .ok());

    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> out(n, kNan);
    std::vector<float> scratch(n, kNan);
    const auto at = backend().GatedMatMul({.gate = product(gate.view, out),
                                           .up = product(up.view, scratch),
                                           .activation = given.activation,
                                           .packed = input.data(),
                                           .keeps_floats = keeps_floats});
    ASSERT_TRUE(at.ok()) << at.status();
    EXPECT_TRUE(
        std::equal(expected_packed.begin(), expected_packed.end(), *at));
    if (!keeps_floats) return;
    EXPECT_EQ(*at, input.data());
    EXPECT_EQ(Bits(out), Bits(expected));
  }
  void ExpectTheBytesOfItsParts(const Given& given) {
    for (const bool keeps_floats : {false, true}) {
      ExpectTheBytesOfItsParts(given, keeps_floats);
    }
  }

  std::vector<std::byte> Packed(int64_t dim, int64_t n_rows) {
    return std::vector<std::byte>(
        static_cast<size_t>(n_rows * dim / kActivationBlock *
                            backend().Device().activation_block_bytes));
  }
};

TEST_P(GatedMatMulTest, HasTheBytesOfItsPartsInEveryType) {
  for (const DType dtype : WeightTypes()) {
    ExpectTheBytesOfItsParts(
        {.gate = dtype, .up = dtype, .n_rows = 24, .cols = 256});
  }
  ExpectTheBytesOfItsParts(
      {.gate = DType::kQ4_K, .up = DType::kQ6_K, .n_rows = 24, .cols = 256});
  ExpectTheBytesOfItsParts(
      {.gate = DType::kQ8_0, .up = DType::kF16, .n_rows = 24});
}

TEST_P(GatedMatMulTest, HasTheBytesOfItsPartsForEveryNumberOfRows) {
  // The fewest that are fused, groups of every size, more than a tile.
  for (const int64_t n_rows : {1, 11, 12, 13, 23, 24, 25, 175}) {
    ExpectTheBytesOfItsParts({.n_rows = n_rows});
  }
}

TEST_P(GatedMatMulTest, ProductsMayHaveScales) {
  for (const int64_t n_rows : {1, 30}) {
    ExpectTheBytesOfItsParts({.n_rows = n_rows, .has_scales = true});
  }
}

TEST_P(GatedMatMulTest, HasTheBytesOfItsPartsForEveryNumberOfOutputs) {
  // A block of packed activations, what is gated at a time, and more.
  for (const int64_t outputs : {32, 96, 128, 160, 288}) {
    ExpectTheBytesOfItsParts(
        {.n_rows = 24, .outputs = outputs, .activation = Activation::kSilu});
  }
}

TEST_P(GatedMatMulTest, HasTheBytesOfItsPartsForEveryActivation) {
  for (const Activation activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwish}) {
    ExpectTheBytesOfItsParts({.n_rows = 24, .activation = activation});
  }
}

TEST_P(GatedMatMulTest, RunsWithoutPackedActivations) {
  RandomData random(42);
  const auto w = Store(backend(), DType::kQ8_0, 40, 64,
                       random.Weights(DType::kQ8_0, 40, 64));
  const auto x = random.Floats(30 * 64);
  std::vector<float> out(30 * 40);
  std::vector<float> factor(out.size());
  std::vector<float> expected(out.size());
  const auto product = [&](std::vector<float>& to) {
    return MatMulArgs{w.view, x.data(), nullptr, to.data(), 30, false};
  };
  ASSERT_TRUE(backend().MatMul(product(expected)).ok());
  const std::vector<float> up = expected;
  ASSERT_TRUE(backend()
                  .GatedActivation({expected.data(), up.data(), expected.data(),
                                    30, 40, Activation::kSilu})
                  .ok());
  const auto at = backend().GatedMatMul({.gate = product(out),
                                         .up = product(factor),
                                         .activation = Activation::kSilu});
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(*at, nullptr);
  EXPECT_EQ(Bits(out), Bits(expected));
}

INSTANTIATE_TEST_SUITE_P(Backends, GatedMatMulTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

// What the fused kernels rely on.
TEST(GatedMatMulErrorsTest, TheCpuRefusesWhatIsNotTwoProductsOfOneInput) {
  const auto made = MakeBackend(AvailableCpuTargets().front(), 1);
  std::vector<float> x(24 * 64);
  std::vector<float> out(24 * 64);
  std::vector<std::byte> packed(24 * 64 / 32 * 80);
  std::vector<std::byte> weights(64 * 64 * 4);
  const auto product = [&](int64_t outputs) {
    return MatMulArgs{{DType::kF32, outputs, 64, weights.data()},
                      x.data(),
                      packed.data(),
                      out.data(),
                      24,
                      false};
  };
  MatMulArgs added = product(32);
  added.accumulate = true;
  MatMulArgs fewer = product(32);
  fewer.n_rows = 23;
  const auto gated = [&](const MatMulArgs& gate, const MatMulArgs& up) {
    return made.backend
        ->GatedMatMul({.gate = gate,
                       .up = up,
                       .activation = Activation::kSilu,
                       .packed = packed.data()})
        .status()
        .code();
  };
  EXPECT_EQ(gated(product(32), product(32)), absl::StatusCode::kOk);
  for (const MatMulArgs& other : {product(64), added, fewer}) {
    EXPECT_EQ(gated(product(32), other), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(gated(product(33), product(33)),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::kernels
