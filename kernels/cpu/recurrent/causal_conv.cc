// A causal convolution of each channel over the rows of a sequence. A task
// takes a block of channels through all rows of one sequence and keeps their
// last inputs.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/causal_conv.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "hwy/highway.h"
#include "kernels/cpu/activate-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {

// A block of channels on its way through the rows of a segment.
struct ConvBlock {
  // Row i of the segment finds its inputs, the oldest one first, at i % width,
  // (i + 1) % width, and so on.
  float inputs[kMaxConvWidth][kConvBlock];
  float weights[kMaxConvWidth][kConvBlock];
};

void Begin(const CausalConvArgs& args, const StateSegment& segment,
           int64_t begin, int64_t n, ConvBlock& block) {
  const StepStates& states = args.states;
  for (int64_t j = 0; j < args.width; ++j) {
    for (int64_t c = 0; c < n; ++c) {
      block.weights[j][c] = args.weight[(begin + c) * args.width + j];
    }
  }
  for (int64_t j = 0; j < args.width - 1; ++j) {
    if (segment.source == kNoState) {
      std::fill_n(block.inputs[j], n, 0.0f);
    } else {
      std::copy_n(states.data + segment.source * states.stride +
                      j * args.channels + begin,
                  n, block.inputs[j]);
    }
  }
}

// Keeps the inputs that rows after row `i` of a segment still need.
void Keep(const CausalConvArgs& args, const ConvBlock& block, int64_t i,
          int64_t begin, int64_t n, int32_t to) {
  for (int64_t j = 0; j < args.width - 1; ++j) {
    std::copy_n(
        block.inputs[(i + 1 + j) % args.width], n,
        args.states.data + to * args.states.stride + j * args.channels + begin);
  }
}

// Convolves as many channels as `d` has lanes: those from `c` on of the block
// that begins at channel `begin`, for row `i` of a segment, which is `row` of
// the step.
template <class D>
void Convolve(D d, const CausalConvArgs& args, int64_t row, int64_t i,
              int64_t begin, int64_t c, ConvBlock& block) {
  const int64_t at = row * args.stride + begin + c;
  auto x = hn::LoadU(d, args.x + at);
  if (args.input_gate != nullptr) {
    x = hn::Mul(x, hn::LoadU(d, args.input_gate + at));
  }
  hn::StoreU(x, d, block.inputs[(i + args.width - 1) % args.width] + c);
  auto y =
      args.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, args.bias + begin + c);
  for (int64_t j = 0; j < args.width; ++j) {
    y = hn::MulAdd(hn::LoadU(d, block.weights[j] + c),
                   hn::LoadU(d, block.inputs[(i + j) % args.width] + c), y);
  }
  if (args.has_silu) y = TimesSigmoid(d, y, y);
  if (args.output_gate != nullptr) {
    y = hn::Mul(y, hn::LoadU(d, args.output_gate + at));
  }
  hn::StoreU(y, d, args.out + row * args.channels + begin + c);
}

}  // namespace

// Convolves channels [begin, begin + n) of a segment.
void ConvolveSegment(const CausalConvArgs& args, const StateSegment& segment,
                     int64_t begin, int64_t n) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  ConvBlock block;
  Begin(args, segment, begin, n, block);
  for (int64_t i = 0; i < segment.n_rows; ++i) {
    const int64_t row = segment.first_row + i;
    int64_t c = 0;
    for (; c + lanes <= n; c += lanes) {
      Convolve(d, args, row, i, begin, c, block);
    }
    for (; c < n; ++c) Convolve(one, args, row, i, begin, c, block);
    const int32_t to = args.states.destinations[row];
    if (to != kNoState) Keep(args, block, i, begin, n, to);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(ConvolveSegment);

void CausalConv(const CausalConvArgs& args, ThreadPool& pool) {
  const int64_t n_blocks = CeilDiv(args.channels, kConvBlock);
  pool.ParallelFor(args.states.n_segments * n_blocks, 1,
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t task = begin; task < end; ++task) {
                       const int64_t first = task % n_blocks * kConvBlock;
                       HWY_DYNAMIC_DISPATCH(ConvolveSegment)
                       (args, args.states.segments[task / n_blocks], first,
                        std::min(kConvBlock, args.channels - first));
                     }
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
