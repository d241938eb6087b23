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

// Channels [begin, begin + n) on their way through the rows of a segment.
struct ConvBlock {
  int64_t begin;
  int64_t n;
  // The inputs that a row reads, the oldest ones first; the last ones are its
  // own.
  float* inputs[kMaxConvWidth];
  float memory[kMaxConvWidth][kConvBlock];
  float weights[kMaxConvWidth][kConvBlock];
};

// The j-th inputs that a state has of a block.
float* Kept(const CausalConvArgs& args, const ConvBlock& block, int32_t state,
            int64_t j) {
  return args.states.data + state * args.states.stride + j * args.channels +
         block.begin;
}

void Begin(const CausalConvArgs& args, int32_t source, ConvBlock& block) {
  const float* weight = args.weight + block.begin * args.width;
  for (int64_t c = 0; c < block.n; ++c) {
    for (int64_t j = 0; j < args.width; ++j) block.weights[j][c] = *weight++;
  }
  for (int64_t j = 0; j < args.width; ++j) {
    block.inputs[j] = block.memory[j];
    if (source == kNoState) {
      std::fill_n(block.inputs[j], block.n, 0.0f);
    } else if (j < args.width - 1) {
      std::copy_n(Kept(args, block, source, j), block.n, block.inputs[j]);
    }
  }
}

// Convolves as many channels of a row as `d` has lanes: those from `c` on of
// the block.
template <class D>
void Convolve(D d, const CausalConvArgs& args, int64_t row, int64_t c,
              ConvBlock& block) {
  const int64_t channel = block.begin + c;
  const int64_t at = row * args.stride + channel;
  auto x = hn::LoadU(d, args.x + at);
  if (args.input_gate != nullptr) {
    x = hn::Mul(x, hn::LoadU(d, args.input_gate + at));
  }
  const int64_t last = args.width - 1;
  hn::StoreU(x, d, block.inputs[last] + c);
  auto y =
      args.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, args.bias + channel);
  for (int64_t j = 0; j < last; ++j) {
    y = hn::MulAdd(hn::LoadU(d, block.weights[j] + c),
                   hn::LoadU(d, block.inputs[j] + c), y);
  }
  y = hn::MulAdd(hn::LoadU(d, block.weights[last] + c), x, y);
  if (args.has_silu) y = TimesSigmoid(d, y, y);
  if (args.output_gate != nullptr) {
    y = hn::Mul(y, hn::LoadU(d, args.output_gate + at));
  }
  hn::StoreU(y, d, args.out + row * args.channels + channel);
}

}  // namespace

// Convolves channels [begin, begin + n) of a segment.
void ConvolveSegment(const CausalConvArgs& args, const StateSegment& segment,
                     int64_t begin, int64_t n) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  ConvBlock block;
  block.begin = begin;
  block.n = n;
  Begin(args, segment.source, block);
  for (int64_t i = 0; i < segment.n_rows; ++i) {
    const int64_t row = segment.first_row + i;
    int64_t c = 0;
    for (; c + lanes <= n; c += lanes) Convolve(d, args, row, c, block);
    for (; c < n; ++c) Convolve(one, args, row, c, block);
    std::rotate(block.inputs, block.inputs + 1, block.inputs + args.width);
    const int32_t to = args.states.destinations[row];
    for (int64_t j = 0; j < args.width - 1 && to != kNoState; ++j) {
      std::copy_n(block.inputs[j], n, Kept(args, block, to, j));
    }
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
