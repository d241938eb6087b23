// Norms of groups with a gate, beside plain loops.
#include <cmath>

#include "kernels/recurrent.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using GatedNormTest = BackendTest;
using Floats = std::vector<float>;

// Inputs of a norm. Gates are parts of longer rows.
struct Norm {
  Norm(int64_t n_rows, int64_t n_groups, int64_t dim) : random(91) {
    const int64_t row = n_groups * dim;
    x = random.FloatsWithin(n_rows * row, 3.0f);
    gate = random.FloatsWithin(n_rows * (row + 5), 4.0f);
    weight = random.FloatsWithin(row, 2.0f);
    args = {.x = x.data(),
            .gate = gate.data() + 5,
            .gate_stride = row + 5,
            .weight = weight.data(),
            .n_rows = n_rows,
            .n_groups = n_groups,
            .dim = dim,
            .eps = 1e-2f};
  }
  Norm(const Norm&) = delete;
  Norm& operator=(const Norm&) = delete;

  RandomData random;
  Floats x, gate, weight;
  GatedNormArgs args;
};

double Silu(double x) { return x / (1 + std::exp(-x)); }

void ExpectNormed(const GatedNormArgs& args, const Floats& out) {
  for (int64_t i = 0; i < args.n_rows * args.n_groups; ++i) {
    const int64_t group = i % args.n_groups;
    const float* const gate =
        args.gate + i / args.n_groups * args.gate_stride + group * args.dim;
    const auto value = [&](int64_t c) {
      const double x = args.x[i * args.dim + c];
      return args.gates_first ? x * Silu(gate[c]) : x;
    };
    double sum = 0;
    for (int64_t c = 0; c < args.dim; ++c) sum += value(c) * value(c);
    const double size =
        std::sqrt(sum / static_cast<double>(args.dim) + args.eps);
    for (int64_t c = 0; c < args.dim; ++c) {
      const int64_t weight_at = args.has_group_weights ? group * args.dim : 0;
      double y = value(c) / size * args.weight[weight_at + c];
      if (!args.gates_first) y *= Silu(gate[c]);
      // The sum of squares and six more operations are rounded.
      ASSERT_NEAR(out[static_cast<size_t>(i * args.dim + c)], y,
                  std::abs(y) * 0x1p-20 + 1e-7)
          << "group " << i << ", column " << c << " of " << args.dim;
    }
  }
}

TEST_P(GatedNormTest, NormsGroupsAndGatesThem) {
  for (const bool gates_first : {false, true}) {
    for (const bool has_group_weights : {false, true}) {
      for (const int64_t n_rows : {1, 3, 40}) {
        for (const int64_t dim : {1, 31, 128, 577}) {
          Norm norm(n_rows, 3, dim);
          norm.args.gates_first = gates_first;
          norm.args.has_group_weights = has_group_weights;
          Floats out(norm.x.size());
          norm.args.out = out.data();
          ASSERT_TRUE(backend().GatedNorm(norm.args).ok());
          ExpectNormed(norm.args, out);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(GatedNormTest, PacksWhatItWritesInPlace) {
  for (const bool gates_first : {false, true}) {
    Norm norm(40, 2, 96);
    norm.args.gates_first = gates_first;
    Floats apart(norm.x.size());
    norm.args.out = apart.data();
    ASSERT_TRUE(backend().GatedNorm(norm.args).ok());
    const auto bytes = static_cast<size_t>(40 * PackedRowBytes(192));
    std::vector<std::byte> packed(bytes);
    ASSERT_TRUE(
        backend().PackActivations({apart.data(), 40, 192, packed.data()}).ok());
    std::vector<std::byte> packed_too(bytes);
    norm.args.out = norm.x.data();
    norm.args.packed = packed_too.data();
    ASSERT_TRUE(backend().GatedNorm(norm.args).ok());
    EXPECT_EQ(Bits(norm.x), Bits(apart));
    EXPECT_EQ(packed_too, packed);
  }
}

TEST_P(GatedNormTest, RowsAreIndependent) {
  constexpr int64_t kRows = 20;
  Norm norm(kRows, 4, 77);
  Floats together(norm.x.size());
  norm.args.out = together.data();
  ASSERT_TRUE(backend().GatedNorm(norm.args).ok());
  const int64_t row = norm.args.RowFloats();
  for (int64_t r = 0; r < kRows; ++r) {
    Floats alone(static_cast<size_t>(row));
    GatedNormArgs args = norm.args;
    args.x += r * row;
    args.gate += r * args.gate_stride;
    args.out = alone.data();
    args.n_rows = 1;
    ASSERT_TRUE(backend().GatedNorm(args).ok());
    ASSERT_EQ(Bits(together.data() + r * row, row), Bits(alone));
  }
}

TEST_P(GatedNormTest, RefusesOtherShapes) {
  Norm norm(1, 2, 48);
  Floats out(96);
  std::vector<std::byte> packed(static_cast<size_t>(PackedRowBytes(96)));
  GatedNormArgs args = norm.args;
  args.out = out.data();
  args.gate_stride = 96;
  EXPECT_TRUE(backend().GatedNorm(args).ok());
  args.gate_stride = 95;
  EXPECT_EQ(backend().GatedNorm(args).code(),
            absl::StatusCode::kInvalidArgument);
  args.gate_stride = 96;
  args.packed = packed.data();
  EXPECT_EQ(backend().GatedNorm(args).code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Paths, GatedNormTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
