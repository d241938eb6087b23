// States of heads that rows change and read, beside plain loops.
#include <algorithm>
#include <cmath>

#include "tests/kernels/recurrent/steps.h"

namespace plimsoll::kernels {
namespace {

using StateScanTest = BackendTest;
using Floats = std::vector<float>;

struct Shape {
  int64_t n_heads, n_key_heads, key_dim, value_dim;
  KeyHeadOrder order = KeyHeadOrder::kGrouped;
};

// Inputs of a scan. The rows of q, k and v lie side by side, and so do the
// numbers of a key head's heads for dt and those for beta.
struct Scan {
  Scan(const Shape& shape, int64_t n_rows, bool has_delta) : random(83) {
    const int64_t keys = shape.n_key_heads * shape.key_dim;
    const int64_t stride = 2 * keys + shape.n_heads * shape.value_dim;
    rows = random.Floats(n_rows * stride);
    gates = random.FloatsWithin(n_rows * 2 * shape.n_heads, 3.0f);
    dt_bias = random.Floats(shape.n_heads);
    skip = random.Floats(shape.n_heads);
    for (int64_t head = 0; head < shape.n_heads; ++head) {
      rate.push_back(random.Uniform(-1.5f, -0.01f));
    }
    const int64_t group = shape.n_heads / shape.n_key_heads;
    args = {.q = rows.data(),
            .k = rows.data() + keys,
            .v = rows.data() + 2 * keys,
            .stride = stride,
            .dt = gates.data() + group,
            .beta = has_delta ? gates.data() : nullptr,
            .gate_stride = 2 * shape.n_heads,
            .gate_group_stride = 2 * group,
            .dt_bias = dt_bias.data(),
            .rate = rate.data(),
            .skip = has_delta ? nullptr : skip.data(),
            .q_scale = 0.3f,
            .norm_eps = 0.01f,
            .n_rows = n_rows,
            .n_heads = shape.n_heads,
            .n_key_heads = shape.n_key_heads,
            .key_dim = shape.key_dim,
            .value_dim = shape.value_dim,
            .order = shape.order};
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  int64_t OutFloats() const { return args.n_heads * args.value_dim; }

  RandomData random;
  Floats rows, gates, dt_bias, rate, skip;
  StateScanArgs args;
};

// A head's state in double precision, and the numbers of its key head and of
// its gates in row r.
class Head {
 public:
  Head(const StateScanArgs& args, int64_t head, const Floats& states)
      : args_(args), head_(head) {
    const auto begin = states.begin() + head * args.HeadStateFloats();
    s_.assign(begin, begin + args.HeadStateFloats());
    const int64_t group = args.n_heads / args.n_key_heads;
    key_head_ = args.order == KeyHeadOrder::kTiled ? head % args.n_key_heads
                                                   : head / group;
    gate_ = head / group * args.gate_group_stride + head % group;
  }

  // Takes row r and returns its output.
  std::vector<double> Take(int64_t r) {
    const std::vector<double> k = KeyOf(args_.k, r);
    const std::vector<double> q = KeyOf(args_.q, r);
    const int64_t gate = r * args_.gate_stride + gate_;
    const double t =
        std::log1p(std::exp(double{args_.dt[gate]} + args_.dt_bias[head_]));
    for (double& value : s_) value *= std::exp(args_.rate[head_] * t);
    std::vector<double> out;
    for (int64_t c = 0; c < args_.value_dim; ++c) {
      const double v = args_.v[r * args_.stride + head_ * args_.value_dim + c];
      double added = t * v;
      if (args_.beta != nullptr) {
        added = (v - Read(k, c)) / (1 + std::exp(-double{args_.beta[gate]}));
      }
      for (int64_t i = 0; i < args_.key_dim; ++i) {
        At(i, c) += k[static_cast<size_t>(i)] * added;
      }
      const double skip = args_.skip == nullptr ? 0.0 : args_.skip[head_];
      out.push_back(args_.q_scale * Read(q, c) + skip * v);
    }
    return out;
  }
  const std::vector<double>& state() const { return s_; }

 private:
  // States lie in tiles of 32 columns.
  double& At(int64_t i, int64_t c) {
    const int64_t first = c / 32 * 32;
    const int64_t n = std::min<int64_t>(32, args_.value_dim - first);
    return s_[static_cast<size_t>(first * args_.key_dim + i * n + c - first)];
  }
  double Read(const std::vector<double>& x, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < args_.key_dim; ++i) {
      sum += At(i, c) * x[static_cast<size_t>(i)];
    }
    return sum;
  }
  std::vector<double> KeyOf(const float* x, int64_t r) const {
    x += r * args_.stride + key_head_ * args_.key_dim;
    std::vector<double> key(x, x + args_.key_dim);
    if (args_.beta == nullptr) return key;
    double square = args_.norm_eps;
    for (const double value : key) square += value * value;
    for (double& value : key) value /= std::sqrt(square);
    return key;
  }

  const StateScanArgs& args_;
  int64_t head_;
  int64_t key_head_;
  int64_t gate_;
  std::vector<double> s_;
};

// Checks the rows and the state at the end of a sequence that began with
// `state`. Sums of up to 256 products are rounded as they grow, and a state
// forgets its errors as it decays: all in all they are 2^-18 of the sizes.
void ExpectScanned(const StateScanArgs& args, const Floats& state,
                   const Floats& out, const Floats& end) {
  for (int64_t head = 0; head < args.n_heads; ++head) {
    Head expected(args, head, state);
    for (int64_t r = 0; r < args.n_rows; ++r) {
      const std::vector<double> values = expected.Take(r);
      for (int64_t c = 0; c < args.value_dim; ++c) {
        const int64_t at = (r * args.n_heads + head) * args.value_dim + c;
        const double value = values[static_cast<size_t>(c)];
        ASSERT_NEAR(out[static_cast<size_t>(at)], value,
                    (std::abs(value) + 2) * 0x1p-18)
            << "row " << r << ", head " << head << ", column " << c;
      }
    }
    for (int64_t i = 0; i < args.HeadStateFloats(); ++i) {
      const double value = expected.state()[static_cast<size_t>(i)];
      ASSERT_NEAR(end[static_cast<size_t>(head * args.HeadStateFloats() + i)],
                  value, (std::abs(value) + 1) * 0x1p-18);
    }
  }
}

void ExpectSequence(Backend& backend, const Scan& scan) {
  Steps<StateScanArgs> steps(scan.args, scan.OutFloats(), 2);
  const Floats state = steps.StateAt(0);
  steps.Take(backend, 0, scan.args.n_rows, 0, 1);
  ExpectScanned(scan.args, state, steps.out(), steps.StateAt(1));
  Steps<StateScanArgs> begins(scan.args, scan.OutFloats(), 1);
  begins.Take(backend, 0, scan.args.n_rows, kNoState, 0);
  ExpectScanned(scan.args, Floats(state.size()), begins.out(),
                begins.StateAt(0));
}

constexpr Shape kShapes[] = {
    {1, 1, 1, 1},   {4, 2, 32, 32, KeyHeadOrder::kTiled},
    {6, 2, 7, 5},   {4, 2, 128, 128, KeyHeadOrder::kGrouped},
    {3, 1, 50, 33}, {2, 2, kMaxStateKeyDim, 40},
};

TEST_P(StateScanTest, IsMamba2) {
  for (const Shape& shape : kShapes) {
    ExpectSequence(backend(), Scan(shape, 20, /*has_delta=*/false));
    if (HasFatalFailure()) return;
  }
}

TEST_P(StateScanTest, IsAGatedDeltaNet) {
  for (const Shape& shape : kShapes) {
    ExpectSequence(backend(), Scan(shape, 20, /*has_delta=*/true));
    if (HasFatalFailure()) return;
  }
}

TEST_P(StateScanTest, ADeltaNetMayHaveASkip) {
  Scan scan({2, 1, 16, 16}, 3, /*has_delta=*/true);
  scan.args.skip = scan.skip.data();
  ExpectSequence(backend(), scan);
}

TEST_P(StateScanTest, KeepsItsPromisesOfStates) {
  const BackendUnderTest other = MakeBackend(GetParam(), 3);
  for (const bool has_delta : {false, true}) {
    const Scan scan({4, 2, 48, 40}, 37, has_delta);
    const StateScanArgs& args = scan.args;
    ExpectCutsChangeNothing(backend(), args, scan.OutFloats());
    ExpectEveryRowCanBeKept(backend(), args, scan.OutFloats());
    ExpectStepsMayBeHeld(backend(), args, scan.OutFloats());
    ExpectRowsOfNoSegmentStay(backend(), args, scan.OutFloats());
    ExpectBadStepsAreRefused(backend(), args, scan.OutFloats());
    ExpectSequencesAreIndependent(backend(), *other.backend, args,
                                  scan.OutFloats());
  }
}

// A large step forgets everything, a small one nothing.
TEST_P(StateScanTest, StepsMayBeOfAnySize) {
  Scan scan({2, 1, 16, 16}, 4, /*has_delta=*/false);
  for (const float dt : {-200.0f, -20.0f, 20.0f, 200.0f}) {
    std::ranges::fill(scan.gates, dt);
    ExpectSequence(backend(), scan);
  }
}

TEST_P(StateScanTest, RefusesOtherShapes) {
  const auto code = [&](const StateScanArgs& args) {
    Steps<StateScanArgs> steps(args, args.n_heads * args.value_dim, 2);
    return steps.Run(backend(), {{0, 1, kNoState}}).code();
  };
  const Scan scan({4, 2, kMaxStateKeyDim, 2}, 1, /*has_delta=*/true);
  EXPECT_EQ(code(scan.args), absl::StatusCode::kOk);
  const auto is_refused = [&](int64_t StateScanArgs::*field, int64_t value) {
    StateScanArgs args = scan.args;
    args.*field = value;
    return code(args) == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(is_refused(&StateScanArgs::key_dim, 0));
  EXPECT_TRUE(is_refused(&StateScanArgs::key_dim, kMaxStateKeyDim + 1));
  EXPECT_TRUE(is_refused(&StateScanArgs::value_dim, 0));
  EXPECT_TRUE(is_refused(&StateScanArgs::n_heads, 0));
  EXPECT_TRUE(is_refused(&StateScanArgs::n_key_heads, 0));
  EXPECT_TRUE(is_refused(&StateScanArgs::n_key_heads, 3));
  EXPECT_TRUE(is_refused(&StateScanArgs::stride, 2 * kMaxStateKeyDim - 1));
  EXPECT_TRUE(is_refused(&StateScanArgs::gate_group_stride, 1));
  EXPECT_TRUE(is_refused(&StateScanArgs::gate_stride, 5));
}

INSTANTIATE_TEST_SUITE_P(Paths, StateScanTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
