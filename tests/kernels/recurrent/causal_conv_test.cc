// Causal convolutions with states, beside plain loops.
#include <algorithm>
#include <cmath>

#include "tests/kernels/recurrent/steps.h"

namespace plimsoll::kernels {
namespace {

using CausalConvTest = BackendTest;
using Floats = std::vector<float>;

// Inputs of a convolution. The rows of x and its gates lie side by side, as
// parts of one product.
struct Conv {
  Conv(int64_t n_rows, int64_t channels, int64_t width)
      : random(81),
        rows(random.FloatsWithin(n_rows * 3 * channels, 2.0f)),
        weight(random.Floats(channels * width)),
        bias(random.Floats(channels)) {
    args = {.x = rows.data() + 2 * channels,
            .stride = 3 * channels,
            .weight = weight.data(),
            .n_rows = n_rows,
            .channels = channels,
            .width = width};
  }
  Conv(const Conv&) = delete;
  Conv& operator=(const Conv&) = delete;

  void AddGates() {
    args.input_gate = rows.data();
    args.output_gate = rows.data() + args.channels;
  }
  void AddBiasAndSilu() {
    args.bias = bias.data();
    args.has_silu = true;
  }
  // The input of row i of a sequence that began with `state`.
  double Input(const Floats& state, int64_t i, int64_t c) const {
    if (i < 0) {
      const int64_t at = (args.width - 1 + i) * args.channels + c;
      return state[static_cast<size_t>(at)];
    }
    const int64_t at = i * args.stride + c;
    return args.input_gate == nullptr ? args.x[at]
                                      : args.x[at] * args.input_gate[at];
  }

  RandomData random;
  Floats rows, weight, bias;
  CausalConvArgs args;
};

// Checks the rows and the state at the end of a sequence that began with
// `state`.
void ExpectConvolved(const Conv& conv, const Floats& state, const Floats& out,
                     const Floats& end) {
  const CausalConvArgs& args = conv.args;
  for (int64_t i = 0; i < args.n_rows; ++i) {
    for (int64_t c = 0; c < args.channels; ++c) {
      double y = args.bias == nullptr ? 0.0 : args.bias[c];
      double size = std::abs(y);
      for (int64_t j = 0; j < args.width; ++j) {
        const double added = double{args.weight[c * args.width + j]} *
                             conv.Input(state, i - (args.width - 1) + j, c);
        y += added;
        size += std::abs(added);
      }
      if (args.has_silu) y /= 1 + std::exp(-y);
      if (args.output_gate != nullptr) {
        y *= args.output_gate[i * args.stride + c];
        size *= std::abs(args.output_gate[i * args.stride + c]);
      }
      // Each of the sums, and what is made of it, is rounded.
      ASSERT_NEAR(out[static_cast<size_t>(i * args.channels + c)], y,
                  (size + 1) * static_cast<double>(args.width + 8) * 0x1p-24)
          << "row " << i << ", channel " << c << " of " << args.channels;
    }
  }
  for (int64_t j = 0; j < args.width - 1; ++j) {
    for (int64_t c = 0; c < args.channels; ++c) {
      const int64_t i = args.n_rows - (args.width - 1) + j;
      ASSERT_FLOAT_EQ(end[static_cast<size_t>(j * args.channels + c)],
                      static_cast<float>(conv.Input(state, i, c)));
    }
  }
}

void ExpectSequence(Backend& backend, const Conv& conv) {
  const int64_t channels = conv.args.channels;
  Steps<CausalConvArgs> steps(conv.args, channels, 2);
  const Floats state = steps.StateAt(0);
  steps.Take(backend, 0, conv.args.n_rows, 0, 1);
  ExpectConvolved(conv, state, steps.out(), steps.StateAt(1));
  Steps<CausalConvArgs> begins(conv.args, channels, 1);
  begins.Take(backend, 0, conv.args.n_rows, kNoState, 0);
  ExpectConvolved(conv, Floats(state.size()), begins.out(), begins.StateAt(0));
}

TEST_P(CausalConvTest, SumsTheLastRows) {
  for (const int64_t channels : {1, 31, 128, 300}) {
    for (const int64_t width :
         {int64_t{1}, int64_t{3}, int64_t{4}, kMaxConvWidth}) {
      for (const int64_t n_rows : {1, 2, 3, 35}) {
        ExpectSequence(backend(), Conv(n_rows, channels, width));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CausalConvTest, HasABiasAnActivationAndGates) {
  Conv mamba(20, 130, 4);
  mamba.AddBiasAndSilu();
  ExpectSequence(backend(), mamba);
  Conv lfm2(20, 130, 3);
  lfm2.AddGates();
  ExpectSequence(backend(), lfm2);
  lfm2.AddBiasAndSilu();
  ExpectSequence(backend(), lfm2);
}

TEST_P(CausalConvTest, KeepsItsPromisesOfStates) {
  Conv conv(40, 150, 4);
  conv.AddGates();
  conv.AddBiasAndSilu();
  const CausalConvArgs& args = conv.args;
  ExpectCutsChangeNothing(backend(), args, args.channels);
  ExpectEveryRowCanBeKept(backend(), args, args.channels);
  ExpectStepsMayBeHeld(backend(), args, args.channels);
  ExpectRowsOfNoSegmentStay(backend(), args, args.channels);
  ExpectBadStepsAreRefused(backend(), args, args.channels);
  const BackendUnderTest other = MakeBackend(GetParam(), 3);
  ExpectSequencesAreIndependent(backend(), *other.backend, args, args.channels);
}

TEST_P(CausalConvTest, RefusesOtherShapes) {
  const Conv conv(2, 5, kMaxConvWidth);
  const auto code = [&](const CausalConvArgs& args) {
    Steps<CausalConvArgs> steps(args, args.channels, 2);
    return steps.Run(backend(), {{0, 2, kNoState}}).code();
  };
  EXPECT_EQ(code(conv.args), absl::StatusCode::kOk);
  CausalConvArgs args = conv.args;
  for (const int64_t width : {int64_t{0}, kMaxConvWidth + 1}) {
    args.width = width;
    EXPECT_EQ(code(args), absl::StatusCode::kInvalidArgument);
  }
  args = conv.args;
  args.stride = args.channels - 1;
  EXPECT_EQ(code(args), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Paths, CausalConvTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
