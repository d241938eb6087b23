// Networks of experts beside dense products, on every backend: the same bits,
// whatever the rows chose.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "kernels/experts.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/mat_mul/products.h"
#include "tests/sanitized.h"

namespace plimsoll::kernels {
namespace {

// A network and the rows that it gets.
struct Mixture {
  DType gate = DType::kQ4_0;
  DType up = DType::kQ4_0;
  DType down = DType::kQ4_0;
  int64_t n_rows = 1;
  int64_t n_experts = 5;
  int64_t n_used = 2;
  int64_t model_dim = 64;
  int64_t ffn_dim = 96;
  bool is_packed = true;
  bool has_biases = false;
  bool weights_inputs = false;  // and not the outputs
  bool has_scales = false;
  Activation activation = Activation::kSilu;
};

// Floats whose widths are not whole vectors.
Mixture OddFloats(int64_t n_rows) {
  return {.gate = DType::kF32,
          .up = DType::kF32,
          .down = DType::kF32,
          .n_rows = n_rows,
          .model_dim = 37,
          .ffn_dim = 21,
          .is_packed = false};
}

// Few rows and many, of floats and of quantised weights.
std::vector<Mixture> Mixtures() {
  std::vector<Mixture> mixtures;
  for (const int64_t n_rows : {1, 5, 60}) {
    mixtures.push_back({.n_rows = n_rows});
    mixtures.push_back({.gate = DType::kQ8_0,
                        .up = DType::kF16,
                        .down = DType::kF32,
                        .n_rows = n_rows});
    mixtures.push_back(OddFloats(n_rows));
  }
  return mixtures;
}

// A matrix of each expert, in a backend's storage.
struct StoredExperts {
  Buffer buffer;
  ExpertMatrices view;
};

StoredExperts StoreExperts(Backend& backend, DType dtype, int64_t n_experts,
                           int64_t rows, int64_t cols, RandomData& random) {
  const int64_t multiple = RowMultiple(backend, dtype);
  const int64_t padded = (rows + multiple - 1) / multiple * multiple;
  StoredExperts stored;
  stored.view.matrix_bytes = padded * *RowBytes(dtype, cols);
  stored.buffer = *backend.Allocate(n_experts * stored.view.matrix_bytes);
  for (int64_t e = 0; e < n_experts; ++e) {
    const BufferView matrix = stored.buffer.view().Slice(
        e * stored.view.matrix_bytes, stored.view.matrix_bytes);
    EXPECT_TRUE(backend
                    .UploadRows({.dtype = dtype,
                                 .rows = rows,
                                 .cols = cols,
                                 .bytes = random.Weights(dtype, rows, cols)},
                                matrix)
                    .ok());
  }
  stored.view.first = {dtype, rows, cols, stored.buffer.data()};
  return stored;
}

class Network {
 public:
  Network(Backend& backend, const Mixture& given)
      : backend_(backend), given_(given), random_(61) {
    const auto store = [&](DType dtype, int64_t rows, int64_t cols) {
      return StoreExperts(backend, dtype, given.n_experts, rows, cols, random_);
    };
    gate_ = store(given.gate, given.ffn_dim, given.model_dim);
    up_ = store(given.up, given.ffn_dim, given.model_dim);
    down_ = store(given.down, given.model_dim, given.ffn_dim);
    x_ = random_.FloatsWithin(given.n_rows * given.model_dim, 2.0f);
    logits_ = random_.FloatsWithin(given.n_rows * given.n_experts, 2.0f);
    before_ = random_.Floats(given.n_rows * given.model_dim);
    if (given.has_scales) {
      scales_.emplace(backend, random_.FloatsWithin(given.n_experts, 3.0f));
      for (StoredExperts* const w : {&gate_, &up_, &down_}) {
        w->view.first.scale = scales_->data();
      }
    }
    if (!given.has_biases) return;
    gate_bias_ = random_.Floats(given.n_experts * given.ffn_dim);
    up_bias_ = random_.Floats(given.n_experts * given.ffn_dim);
    down_bias_ = random_.Floats(given.n_experts * given.model_dim);
  }

  // The output of rows [first, first + n), computed together.
  std::vector<float> Run(int64_t first, int64_t n, bool accumulate) {
    const Mixture& g = given_;
    const int64_t n_places = n * g.n_used;
    std::vector<std::byte> routed(
        static_cast<size_t>(ExpertRowsBytes(n, g.n_experts, g.n_used)));
    const ExpertRows rows =
        ExpertRowsAt(routed.data(), n, g.n_experts, g.n_used);
    ExpectOk(
        backend_.RouteExperts({.logits = &logits_.at(At(first * g.n_experts)),
                               .to = rows,
                               .routing = {.is_normalized = true}}));
    // What is read and what is packed may lie in one place.
    std::vector<std::byte> packed;
    if (g.is_packed) {
      packed.resize(
          At(PackedRowBytes(std::max(n * g.model_dim, n_places * g.ffn_dim))));
      ExpectOk(
          backend_.PackActivations({X(first), n, g.model_dim, packed.data()}));
    }
    std::byte* const packed_at = g.is_packed ? packed.data() : nullptr;
    std::vector<float> scratch(At(n_places * g.model_dim), kNan);
    std::vector<float> gated(At(n_places * g.ffn_dim), kNan);
    std::vector<float> up(gated.size(), kNan);
    const auto hidden = backend_.GatedExpertMatMul(
        {.rows = rows,
         .gate = gate_.view,
         .up = up_.view,
         .x = X(first),
         .packed = packed_at,
         .activation = g.activation,
         .gathered = reinterpret_cast<std::byte*>(scratch.data()),
         .out = gated.data(),
         .up_out = up.data(),
         .packed_out = packed_at,
         .keeps_floats = !g.is_packed || IsFloatType(g.down),
         .gate_bias = BiasOf(gate_bias_),
         .up_bias = BiasOf(up_bias_),
         .weights_inputs = g.weights_inputs});
    ExpectOk(hidden.status());
    std::vector<float> out(before_.begin() + first * g.model_dim,
                           before_.begin() + (first + n) * g.model_dim);
    ExpectOk(backend_.ExpertSumMatMul({.rows = rows,
                                       .w = down_.view,
                                       .x = gated.data(),
                                       .packed = *hidden,
                                       .products = scratch.data(),
                                       .out = out.data(),
                                       .accumulate = accumulate,
                                       .bias = BiasOf(down_bias_),
                                       .weights_outputs = !g.weights_inputs}));
    experts_.assign(rows.experts, rows.experts + n_places);
    weights_.assign(rows.weights, rows.weights + n_places);
    return out;
  }

  // The output of one row, by dense products and in double from there on.
  std::vector<double> Expected(int64_t row) {
    const Mixture& g = given_;
    (void)Run(row, 1, /*accumulate=*/false);
    std::vector<double> sums(before_.begin() + row * g.model_dim,
                             before_.begin() + (row + 1) * g.model_dim);
    const std::vector<float> x(X(row), X(row) + g.model_dim);
    for (int64_t i = 0; i < g.n_used; ++i) {
      const float weight = weights_[At(i)];
      const std::vector<float> y =
          DenseOf(experts_[At(i)], x, g.weights_inputs ? weight : 1);
      for (size_t c = 0; c < sums.size(); ++c) {
        sums[c] += double{g.weights_inputs ? 1 : weight} * y[c];
      }
    }
    return sums;
  }

  const float* X(int64_t row) const {
    return x_.data() + row * given_.model_dim;
  }

 private:
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

  static size_t At(int64_t i) { return static_cast<size_t>(i); }
  // Biases as an operation takes them.
  static const float* BiasOf(const std::vector<float>& biases) {
    return biases.empty() ? nullptr : biases.data();
  }
  static void ExpectOk(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
  }

  // One expert's network on one row times `weight`.
  std::vector<float> DenseOf(int64_t expert, const std::vector<float>& x,
                             float weight) {
    const auto product = [&](const StoredExperts& w,
                             const std::vector<float>& biases,
                             const std::vector<float>& input, float factor) {
      std::vector<float> y =
          Product(backend_, w.view.Of(expert), input, 1, given_.is_packed);
      const size_t first = At(expert) * y.size();
      for (size_t i = 0; i < y.size(); ++i) {
        y[i] *= factor;
        if (!biases.empty()) y[i] += biases[first + i];
      }
      return y;
    };
    std::vector<float> gated = product(gate_, gate_bias_, x, weight);
    const std::vector<float> up = product(up_, up_bias_, x, weight);
    ExpectOk(backend_.GatedActivation({.gate = gated.data(),
                                       .up = up.data(),
                                       .out = gated.data(),
                                       .n_rows = 1,
                                       .dim = given_.ffn_dim,
                                       .activation = given_.activation}));
    return product(down_, down_bias_, gated, 1);
  }

  Backend& backend_;
  const Mixture given_;
  RandomData random_;
  StoredExperts gate_, up_, down_;
  std::vector<float> x_;
  std::vector<float> logits_;
  std::vector<float> before_;
  std::optional<StoredScale> scales_;                   // one of each expert
  std::vector<float> gate_bias_, up_bias_, down_bias_;  // none, or of each
                                                        // expert
  // Results of the last run.
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
};

class ExpertMatMulTest : public BackendTest {
 protected:
  // Each row has the bits that it has alone, and the values that dense products
  // give.
  void ExpectRowsAsAlone(const Mixture& given) {
    SCOPED_TRACE(absl::StrCat(
        DTypeName(given.gate), ", ", DTypeName(given.up), " and ",
        DTypeName(given.down), given.is_packed ? " packed, " : ", ",
        given.n_rows, " rows, ", given.n_used, " of ", given.n_experts,
        " experts, ", given.ffn_dim, " from ", given.model_dim));
    Network network(backend(), given);
    const std::vector<float> all =
        network.Run(0, given.n_rows, /*accumulate=*/true);
    const auto dim = given.model_dim;
    // Few rows are enough of many.
    const int64_t step = std::max<int64_t>(1, given.n_rows / 5);
    for (int64_t r = 0; r < given.n_rows; r += step) {
      const std::vector<float> alone = network.Run(r, 1, /*accumulate=*/true);
      ASSERT_EQ(Bits(alone), Bits(all.data() + r * dim, dim)) << "row " << r;
      const std::vector<double> expected = network.Expected(r);
      double size = 0;
      for (const double y : expected) size = std::max(size, std::abs(y));
      for (size_t c = 0; c < expected.size(); ++c) {
        // The sum over a few experts is rounded a few times.
        ASSERT_NEAR(alone[c], expected[c], size * 0x1p-20);
      }
    }
  }
};

TEST_P(ExpertMatMulTest, RowsAreAsAloneInEveryType) {
  // An emulator takes its time.
  const bool is_emulated = IsEmulated(GetParam());
  const int64_t n_rows = is_emulated ? 3 : 9;
  const size_t each = is_emulated && !testing::kIsLong ? 3 : 1;
  const auto& types = WeightTypes();
  for (size_t i = 0; i < types.size(); i += each) {
    const DType dtype = types[i];
    for (const bool is_packed : {false, true}) {
      if (is_packed && IsFloatType(dtype)) continue;
      ExpectRowsAsAlone({.gate = dtype,
                         .up = dtype,
                         .down = dtype,
                         .n_rows = n_rows,
                         .n_experts = 3,
                         .model_dim = 256,
                         .ffn_dim = 256,
                         .is_packed = is_packed});
    }
  }
}

TEST_P(ExpertMatMulTest, TypesMayDiffer) {
  for (const int64_t n_rows : {1, 60}) {
    ExpectRowsAsAlone({.gate = DType::kQ4_K,
                       .up = DType::kQ8_0,
                       .down = DType::kQ6_K,
                       .n_rows = n_rows,
                       .model_dim = 256,
                       .ffn_dim = 256});
    ExpectRowsAsAlone({.gate = DType::kQ8_0,
                       .up = DType::kBF16,
                       .down = DType::kF32,
                       .n_rows = n_rows});
    ExpectRowsAsAlone(
        {.gate = DType::kF16, .up = DType::kQ5_0, .n_rows = n_rows});
  }
}

// Experts have from none to many rows: groups that are fused and that are not.
TEST_P(ExpertMatMulTest, RowsAreAsAloneInEveryNumber) {
  const int64_t most = IsCuda(GetParam()) ? 60 : 300;
  for (const int64_t n_rows : {2, 3, 11, 24, 47, 60, 300}) {
    if (n_rows > most) continue;
    ExpectRowsAsAlone({.n_rows = n_rows});
    ExpectRowsAsAlone({.n_rows = n_rows, .n_experts = 70, .n_used = 3});
  }
}

TEST_P(ExpertMatMulTest, ExpertsMayHaveBiases) {
  for (Mixture given : Mixtures()) {
    given.has_biases = true;
    for (const Activation activation :
         {Activation::kSilu, Activation::kClampedSwish}) {
      given.activation = activation;
      ExpectRowsAsAlone(given);
    }
  }
}

// The weights come before the biases, and with them nothing is fused.
TEST_P(ExpertMatMulTest, WeightsMayMultiplyTheInputs) {
  for (Mixture given : Mixtures()) {
    given.weights_inputs = true;
    if (given.up == DType::kF16) given.n_used = 1;  // as Llama 4 has it
    for (const bool has_biases : {false, true}) {
      given.has_biases = has_biases;
      ExpectRowsAsAlone(given);
    }
  }
}

TEST_P(ExpertMatMulTest, ExpertsMayHaveScales) {
  for (const int64_t n_rows : {1, 60}) {
    for (const DType dtype : {DType::kNvfp4, DType::kF16}) {
      ExpectRowsAsAlone({.gate = dtype,
                         .up = dtype,
                         .down = dtype,
                         .n_rows = n_rows,
                         .ffn_dim = 128,
                         .has_biases = n_rows == 1,
                         .has_scales = true});
    }
  }
}

// Without biases, rows of that many experts are gated before they leave the
// caches.
TEST_P(ExpertMatMulTest, AnActivationMayBeClampedWithoutBiases) {
  for (const int64_t n_rows : {1, 60}) {
    ExpectRowsAsAlone(
        {.n_rows = n_rows, .activation = Activation::kClampedSwish});
  }
}

TEST_P(ExpertMatMulTest, OneExpertMayHaveAllRows) {
  for (const int64_t n_rows : {1, 13, 30}) {
    ExpectRowsAsAlone({.n_rows = n_rows, .n_experts = 1, .n_used = 1});
    ExpectRowsAsAlone({.n_rows = n_rows, .n_experts = 2, .n_used = 2});
  }
}

TEST_P(ExpertMatMulTest, WidthsAreNotWholePanels) {
  for (const int64_t n_rows : {1, 50}) {
    ExpectRowsAsAlone({.n_rows = n_rows, .model_dim = 96, .ffn_dim = 160});
    ExpectRowsAsAlone(OddFloats(n_rows));
  }
}

TEST_P(ExpertMatMulTest, WhatWasInTheOutputsCountsOnlyWhereItIsAddedTo) {
  Network network(backend(), {.n_rows = 3});
  const std::vector<float> added = network.Run(0, 3, /*accumulate=*/true);
  const std::vector<float> set = network.Run(0, 3, /*accumulate=*/false);
  Network other(backend(), {.n_rows = 3});
  EXPECT_EQ(Bits(other.Run(0, 3, /*accumulate=*/false)), Bits(set));
  EXPECT_NE(Bits(added), Bits(set));
}

// Dense products that stream would add up in another order.
INSTANTIATE_TEST_SUITE_P(Backends, ExpertMatMulTest,
                         ::testing::ValuesIn(ExactBackendNames()),
                         BackendTestName);

TEST(ExpertMatMulErrorsTest, MatricesThatDoNotFitAreRefused) {
  const auto made = MakeBackend(AvailableCpuTargets().front(), 1);
  std::vector<std::byte> routed(static_cast<size_t>(ExpertRowsBytes(1, 2, 1)));
  std::vector<float> x(64);
  std::vector<std::byte> packed(static_cast<size_t>(PackedRowBytes(64)));
  const auto code = [&](int64_t gate_rows, int64_t up_rows, int64_t up_cols) {
    GatedExpertMatMulArgs args = {};
    args.rows = ExpertRowsAt(routed.data(), 1, 2, 1);
    args.gate.first = {DType::kF32, gate_rows, 64, nullptr};
    args.up.first = {DType::kF32, up_rows, up_cols, nullptr};
    args.x = x.data();
    args.packed_out = packed.data();
    return made.backend->GatedExpertMatMul(args).status().code();
  };
  EXPECT_EQ(code(32, 64, 64), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(32, 32, 32), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(33, 33, 64), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::kernels
