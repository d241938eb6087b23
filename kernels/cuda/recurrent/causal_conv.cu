// A causal convolution of each channel over the rows of a sequence. A thread
// takes a channel through kTileRows rows. The one that takes a segment's first
// rows also writes the states that the segment leaves, as it alone reads the
// state that the segment begins with.
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/recurrent/segments.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kTileRows = 16;
static_assert(kTileRows >= kMaxConvWidth);

// A channel of a segment.
struct Channel {
  const CausalConvArgs& args;
  const StateSegment& segment;
  int64_t c;
  float kept[kMaxConvWidth];  // the first width - 1 are from the state

  __device__ int64_t At(int64_t i) const {
    return (segment.first_row + i) * args.stride + c;
  }
  // The input of row i of the segment, or of one before it if i is negative.
  __device__ float Input(int64_t i) const {
    if (i < 0) return kept[args.width - 1 + i];
    const float x = args.x[At(i)];
    return args.input_gate == nullptr ? x : x * args.input_gate[At(i)];
  }
};

__device__ float Convolved(const Channel& channel, int64_t i) {
  const CausalConvArgs& args = channel.args;
  float y = args.bias == nullptr ? 0.0f : args.bias[channel.c];
  for (int64_t j = 0; j < args.width; ++j) {
    y = Fma(args.weight[channel.c * args.width + j],
            channel.Input(i - (args.width - 1) + j), y);
  }
  if (args.has_silu) y = y / (1.0f + expf(-y));
  return args.output_gate == nullptr ? y : y * args.output_gate[channel.At(i)];
}

// Block (x, y, z) takes the y-th kTileRows rows of segment x and the z-th
// kThreads channels.
__global__ void ConvolveTiles(const __grid_constant__ CausalConvArgs args) {
  WaitForKernelsBefore();
  const StepStates& states = args.states;
  const StateSegment segment = states.segments[blockIdx.x];
  const int64_t c = int64_t{blockIdx.z} * kThreads + ThreadIndex();
  const int64_t begin = int64_t{blockIdx.y} * kTileRows;
  if (c >= args.channels || begin >= segment.n_rows) return;
  Channel channel = {args, segment, c, {}};
  const int64_t n_kept = args.width - 1;
  if (begin == 0 && segment.source != kNoState) {
    const float* from = states.data + segment.source * states.stride + c;
    for (int64_t j = 0; j < n_kept; ++j) {
      channel.kept[j] = from[j * args.channels];
    }
  }
  const int64_t end =
      begin + kTileRows < segment.n_rows ? begin + kTileRows : segment.n_rows;
  for (int64_t i = begin; i < end; ++i) {
    args.out[(segment.first_row + i) * args.channels + c] =
        Convolved(channel, i);
  }
  if (begin > 0) return;
  for (int64_t i = 0; i < segment.n_rows; ++i) {
    const int64_t to = states.destinations[segment.first_row + i];
    if (to == kNoState) continue;
    for (int64_t j = 0; j < n_kept; ++j) {
      states.data[to * states.stride + j * args.channels + c] =
          channel.Input(i + 1 - n_kept + j);
    }
  }
}

}  // namespace

absl::Status CausalConv(const Context& context, const CausalConvArgs& args) {
  const Grid grid = {args.states.n_segments,
                     (LongestSegment(args.states) + kTileRows - 1) / kTileRows,
                     (args.channels + kThreads - 1) / kThreads};
  if (grid.x == 0 || grid.y == 0) return absl::OkStatus();
  CausalConvArgs given = args;
  ASSIGN_OR_RETURN(given.states,
                   PutStates(args.states, args.n_rows, context.queue));
  Launch(ConvolveTiles, grid, kThreads, 0, context.queue, given);
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
