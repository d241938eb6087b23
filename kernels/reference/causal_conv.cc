// Reference: a causal convolution of each channel over the rows of a sequence.
#include <cmath>
#include <vector>

#include "kernels/recurrent.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

// What row r and the rows before it give channel c. `inputs` has the channel's
// last args.width inputs.
float Output(const CausalConvArgs& args, int64_t r, int64_t c,
             const float* inputs) {
  double y = args.bias == nullptr ? 0.0 : args.bias[c];
  for (int64_t j = 0; j < args.width; ++j) {
    y += double{args.weight[c * args.width + j]} * inputs[j];
  }
  if (args.has_silu) y /= 1.0 + std::exp(-y);
  if (args.output_gate != nullptr) y *= args.output_gate[r * args.stride + c];
  return static_cast<float>(y);
}

void ConvolveChannel(const CausalConvArgs& args, const StateSegment& segment,
                     int64_t c) {
  const StepStates& states = args.states;
  const int64_t n_kept = args.width - 1;
  // The kept inputs, then those of the segment's rows.
  std::vector<float> inputs(static_cast<size_t>(n_kept + segment.n_rows));
  for (int64_t j = 0; j < n_kept && segment.source != kNoState; ++j) {
    inputs[static_cast<size_t>(j)] =
        states.data[segment.source * states.stride + j * args.channels + c];
  }
  for (int64_t i = 0; i < segment.n_rows; ++i) {
    const int64_t r = segment.first_row + i;
    const int64_t at = r * args.stride + c;
    const float gate = args.input_gate == nullptr ? 1.0f : args.input_gate[at];
    inputs[static_cast<size_t>(n_kept + i)] = args.x[at] * gate;
    args.out[r * args.channels + c] = Output(args, r, c, inputs.data() + i);
    const int32_t to = states.destinations[r];
    for (int64_t j = 0; j < n_kept && to != kNoState; ++j) {
      states.data[to * states.stride + j * args.channels + c] =
          inputs[static_cast<size_t>(i + 1 + j)];
    }
  }
}

}  // namespace

void CausalConv(const CausalConvArgs& args) {
  for (int64_t s = 0; s < args.states.n_segments; ++s) {
    for (int64_t c = 0; c < args.channels; ++c) {
      ConvolveChannel(args, args.states.segments[s], c);
    }
  }
}

}  // namespace plimsoll::kernels::reference
