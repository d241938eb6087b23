// Each head's state, which every row changes and then reads. A block takes a
// tile of a head's state through all rows of one sequence, and keeps it in
// registers. A warp has kWarpColumns of the columns. Each of them is spread
// over kColumnLanes lanes, which add up what they have.
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/recurrent/segments.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpThreads;
constexpr int kColumnLanes = 4;
constexpr int kWarpColumns = kWarpThreads / kColumnLanes;
static_assert(kStateColumns == kWarps * kWarpColumns);
static_assert(kStateColumns == kWarpThreads);  // a warp stages a row's values
// Rows that are staged in shared memory together.
constexpr int kStageRows = 16;

// What a row does with the state S, where k and q are not normed:
//   S = decay * S + k d^T, d = write * (v - expect * S^T k)
//   out = read * S^T q + skip * v
// A row of Mamba 2 expects nothing.
struct RowNumbers {
  float decay;
  float expect;
  float write;
  float read;
};

// Keys are padded with zeros to kKeys elements.
template <int kKeys>
struct Stage {
  float k[kStageRows][kKeys];
  float q[kStageRows][kKeys];
  float v[kStageRows][kStateColumns];
  RowNumbers numbers[kStageRows];
};

// log(1 + e^x)
__device__ inline float Softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

// The numbers of a row, from the sums of squares of its key and its query.
__device__ inline RowNumbers NumbersOf(const StateScanArgs& args, int64_t row,
                                       int64_t head, float k_square,
                                       float q_square) {
  const int64_t at = args.GateAt(row, head);
  const float t = Softplus(args.dt[at] + args.dt_bias[head]);
  const float decay = expf(args.rate[head] * t);
  if (args.beta == nullptr) return {decay, 0, t, args.q_scale};
  const float k_scale = 1.0f / sqrtf(k_square + args.norm_eps);
  return {decay, decay * k_scale, k_scale / (1.0f + expf(-args.beta[at])),
          args.q_scale / sqrtf(q_square + args.norm_eps)};
}

// Stages `row` as row i. All lanes of a warp take part.
template <int kKeys>
__device__ void StageRow(const StateScanArgs& args, int64_t row, int64_t head,
                         int i, Stage<kKeys>* stage) {
  const float* k = args.k + args.KeyAt(row, head);
  const float* q = args.q + args.KeyAt(row, head);
  float k_square = 0;
  float q_square = 0;
#pragma unroll
  for (int c = LaneIndex(); c < kKeys; c += kWarpThreads) {
    const float k_value = c < args.key_dim ? k[c] : 0.0f;
    const float q_value = c < args.key_dim ? q[c] : 0.0f;
    stage->k[i][c] = k_value;
    stage->q[i][c] = q_value;
    k_square = Fma(k_value, k_value, k_square);
    q_square = Fma(q_value, q_value, q_square);
  }
  const int64_t tile = blockIdx.z;
  const float* v = args.v + args.ValueAt(row, head) + tile * kStateColumns;
  stage->v[i][LaneIndex()] =
      LaneIndex() < args.TileColumns(tile) ? v[LaneIndex()] : 0.0f;
  k_square = WarpSum(k_square);
  q_square = WarpSum(q_square);
  if (LaneIndex() == 0) {
    stage->numbers[i] = NumbersOf(args, row, head, k_square, q_square);
  }
}

// The sum over the lanes that share a column.
__device__ inline float SumOfFragments(float x) {
#pragma unroll
  for (int mask = kWarpColumns; mask < kWarpThreads; mask *= 2) {
    x += __shfl_xor_sync(kFullWarp, x, mask);
  }
  return x;
}

// A lane's fragment of a column. It has four keys of every 4 * kColumnLanes.
template <int kQuads>
struct ColumnFragment {
  static constexpr int kKeys = 4 * kColumnLanes * kQuads;

  int column;  // column of the tile
  int lane;
  float s[4 * kQuads];

  // The key of element i.
  __device__ int64_t KeyOf(int i) const {
    return (i / 4 * kColumnLanes + lane) * 4 + i % 4;
  }
  // Calls fn(element, number) for the elements that `state` has.
  template <class Function>
  __device__ void ForState(const StateScanArgs& args, int64_t head,
                           int32_t state, const Function& fn) {
    const int64_t tile = blockIdx.z;
    const int64_t n_columns = args.TileColumns(tile);
    if (column >= n_columns) return;
    float* at = args.states.data + state * args.states.stride +
                args.TileAt(head, tile) + column;
#pragma unroll
    for (int i = 0; i < 4 * kQuads; ++i) {
      if (KeyOf(i) < args.key_dim) fn(at[KeyOf(i) * n_columns], s[i]);
    }
  }
  // The lane's four elements of `x` at its quad j.
  __device__ float4 QuadOf(const float* x, int j) const {
    return reinterpret_cast<const float4*>(x)[j * kColumnLanes + lane];
  }
  // S^T x for the column.
  __device__ float Read(const float* x) const {
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < kQuads; ++j) {
      const float4 given = QuadOf(x, j);
      sums[0] = Fma(s[4 * j], given.x, sums[0]);
      sums[1] = Fma(s[4 * j + 1], given.y, sums[1]);
      sums[2] = Fma(s[4 * j + 2], given.z, sums[2]);
      sums[3] = Fma(s[4 * j + 3], given.w, sums[3]);
    }
    return SumOfFragments((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
  // S = decay * S + k written
  __device__ void Change(float decay, const float* k, float written) {
#pragma unroll
    for (int j = 0; j < kQuads; ++j) {
      const float4 given = QuadOf(k, j);
      s[4 * j] = Fma(given.x, written, decay * s[4 * j]);
      s[4 * j + 1] = Fma(given.y, written, decay * s[4 * j + 1]);
      s[4 * j + 2] = Fma(given.z, written, decay * s[4 * j + 2]);
      s[4 * j + 3] = Fma(given.w, written, decay * s[4 * j + 3]);
    }
  }
};

// Takes a column through the row that is staged as row i. Returns its output.
template <int kQuads>
__device__ float ScanRow(const StateScanArgs& args, int64_t head,
                         const Stage<ColumnFragment<kQuads>::kKeys>& stage,
                         int i, ColumnFragment<kQuads>& fragment) {
  const RowNumbers numbers = stage.numbers[i];
  const float v = stage.v[i][fragment.column];
  float written = v;
  if (args.beta != nullptr) {
    written = Fma(-numbers.expect, fragment.Read(stage.k[i]), v);
  }
  fragment.Change(numbers.decay, stage.k[i], numbers.write * written);
  const float skip = args.skip == nullptr ? 0.0f : args.skip[head];
  return Fma(numbers.read, fragment.Read(stage.q[i]), skip * v);
}

// Block (x, y, z) takes tile z of head y through segment x. A multiprocessor
// has registers for four of them, so that some load while others compute.
template <int kQuads>
__global__ void __launch_bounds__(kThreads, 4) ScanTiles(StateScanArgs args) {
  WaitForKernelsBefore();
  using Columns = ColumnFragment<kQuads>;
  auto* stage = reinterpret_cast<Stage<Columns::kKeys>*>(DynamicShared());
  const StateSegment segment = args.states.segments[blockIdx.x];
  const int64_t head = blockIdx.y;
  const int64_t tile = blockIdx.z;
  Columns fragment;
  fragment.column = WarpIndex() * kWarpColumns + LaneIndex() % kWarpColumns;
  fragment.lane = LaneIndex() / kWarpColumns;
  for (float& value : fragment.s) value = 0;
  if (segment.source != kNoState) {
    fragment.ForState(args, head, segment.source,
                      [](const float& from, float& value) { value = from; });
  }
  for (int64_t begin = 0; begin < segment.n_rows; begin += kStageRows) {
    const int64_t left = segment.n_rows - begin;
    const int n = left < kStageRows ? static_cast<int>(left) : kStageRows;
    const int64_t first = segment.first_row + begin;
    __syncthreads();
    for (int i = WarpIndex(); i < n; i += kWarps) {
      StageRow(args, first + i, head, i, stage);
    }
    __syncthreads();
    for (int i = 0; i < n; ++i) {
      const float out = ScanRow(args, head, *stage, i, fragment);
      if (fragment.lane == 0 && fragment.column < args.TileColumns(tile)) {
        args.out[((first + i) * args.n_heads + head) * args.value_dim +
                 tile * kStateColumns + fragment.column] = out;
      }
      const int32_t to = args.states.destinations[first + i];
      if (to == kNoState) continue;
      fragment.ForState(args, head, to,
                        [](float& kept, const float& value) { kept = value; });
    }
  }
}

template <int kQuads>
void LaunchScan(const StateScanArgs& args, LaunchQueue* queue) {
  const Grid grid = {args.states.n_segments, args.n_heads,
                     (args.value_dim + kStateColumns - 1) / kStateColumns};
  Launch(ScanTiles<kQuads>, grid, kThreads,
         static_cast<int64_t>(sizeof(Stage<ColumnFragment<kQuads>::kKeys>)),
         queue, args);
}

}  // namespace

absl::Status StateScan(const Context& context, const StateScanArgs& args) {
  if (args.states.n_segments == 0) return absl::OkStatus();
  StateScanArgs given = args;
  ASSIGN_OR_RETURN(given.states,
                   PutStates(args.states, args.n_rows, context.queue));
  static_assert(kMaxStateKeyDim == ColumnFragment<16>::kKeys);
  if (args.key_dim <= ColumnFragment<2>::kKeys) {
    LaunchScan<2>(given, context.queue);
  } else if (args.key_dim <= ColumnFragment<4>::kKeys) {
    LaunchScan<4>(given, context.queue);
  } else if (args.key_dim <= ColumnFragment<8>::kKeys) {
    LaunchScan<8>(given, context.queue);
  } else {
    LaunchScan<16>(given, context.queue);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
