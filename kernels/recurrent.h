// The operations of layers that keep a state for each sequence: a short
// convolution, and a matrix of each head that every row changes and then reads.
// Pointers are as in backend.h.
//
// States are float32 and do not grow with their sequences. The rows of a
// sequence are taken in order, and each of them changes the state by the same
// operations. So a row and the state after it have the same bits however the
// prompt is cut into steps, and whatever else is in them.
#ifndef PLIMSOLL_KERNELS_RECURRENT_H_
#define PLIMSOLL_KERNELS_RECURRENT_H_

#include <cstddef>
#include <cstdint>

namespace plimsoll::kernels {

inline constexpr int64_t kMaxConvWidth = 8;
inline constexpr int64_t kMaxStateKeyDim = 256;
// Columns of a tile of a head's state.
inline constexpr int64_t kStateColumns = 32;

// This value in the place of a state's index says that a sequence begins with
// zeros, or that its state is not kept.
inline constexpr int32_t kNoState = -1;

// The rows of one sequence in a step; they are consecutive tokens.
struct StateSegment {
  int64_t first_row = 0;  // in the step's [n_rows, ...] buffers
  int64_t n_rows = 0;
  int32_t source = kNoState;  // the state before the first row
};

// The states of one layer, and which of them a step reads and writes.
//
// Several segments may have the same source. A state that a segment writes is
// no other segment's source or destination; it may be the segment's own source.
struct StepStates {
  float* data = nullptr;  // state i begins at data + i * stride
  int64_t stride = 0;     // floats from one state to the next
  int64_t n_states = 0;
  const StateSegment* segments = nullptr;  // host, [n_segments]
  int64_t n_segments = 0;
  // Host, [n_rows]: the index of the state that is stored after the row, or
  // kNoState if it is not kept. The last row of a segment has one as a rule. A
  // row before it has one if the sequence may be taken back to that row, as
  // after drafts that are rejected.
  const int32_t* destinations = nullptr;
};

// A causal convolution of each channel over the last `width` rows of a
// sequence. With u[r][c] = x[r][c] * input_gate[r][c],
//   y[r][c] = bias[c] + sum over j < width of
//             weight[c][j] * u[r - (width - 1) + j][c]
//   out[r][c] = (has_silu ? silu(y[r][c]) : y[r][c]) * output_gate[r][c]
// A state has the last width - 1 rows of u, [width - 1, channels], the oldest
// one first. `out` overlaps none of the inputs.
struct CausalConvArgs {
  const float* x = nullptr;            // [n_rows, channels]
  const float* input_gate = nullptr;   // like x, or nullptr: ones
  const float* output_gate = nullptr;  // like x, or nullptr: ones
  int64_t stride = 0;  // floats from one row of these three to the next
  const float* weight = nullptr;  // [channels, width]
  const float* bias = nullptr;    // [channels] or nullptr: zeros
  bool has_silu = false;
  float* out = nullptr;  // [n_rows, channels]
  int64_t n_rows = 0;
  int64_t channels = 0;
  int64_t width = 0;  // 1..kMaxConvWidth
  StepStates states = {};

  constexpr int64_t StateFloats() const { return (width - 1) * channels; }
};

// Which key head a head has, where each of them serves as many heads.
enum class KeyHeadOrder {
  kGrouped,  // the first key head serves the first heads, and so on
  kTiled,    // heads have the key heads in turn, again and again
};

// Each head has a state S [key_dim, value_dim]. A row changes it, then reads
// it, with its key k and query q of the head's key head and its value v:
//   t = softplus(dt + dt_bias), decay = exp(rate * t)
//   S = decay * S + k (t * v)^T
//   out = q_scale * S^T q + skip * v
// That is Mamba 2, where k is called B, q is C, v is x, rate is A and skip D.
//
// With `beta` it is a gated delta net: k and q are divided by
// (sum(x^2) + norm_eps)^1/2 first, and the state changes by
//   S = decay * S
//   S = S + k (sigmoid(beta) * (v - S^T k))^T
//
// A state has S of every head, one after the other, each in tiles of
// kStateColumns columns, [tiles, key_dim, kStateColumns]. The last tile has the
// columns that are left. `out` overlaps none of the inputs.
struct StateScanArgs {
  const float* q = nullptr;  // [n_rows, n_key_heads, key_dim]
  const float* k = nullptr;  // like q
  const float* v = nullptr;  // [n_rows, n_heads, value_dim]
  int64_t stride = 0;        // floats from one row of q, k or v to the next
  // [n_rows, n_key_heads, n_heads / n_key_heads]: in a row, the numbers of a
  // key head's heads lie side by side, and those of the next key head begin
  // gate_group_stride floats after the first of them.
  const float* dt = nullptr;
  const float* beta = nullptr;  // like dt, or nullptr: Mamba 2
  int64_t gate_stride = 0;      // floats from one row of dt or beta to the next
  int64_t gate_group_stride = 0;
  const float* dt_bias = nullptr;  // [n_heads]
  const float* rate = nullptr;     // [n_heads], none is positive
  const float* skip = nullptr;     // [n_heads] or nullptr: zeros
  float q_scale = 1;
  float norm_eps = 0;
  float* out = nullptr;  // [n_rows, n_heads, value_dim]
  int64_t n_rows = 0;
  int64_t n_heads = 0;  // a multiple of n_key_heads
  int64_t n_key_heads = 0;
  int64_t key_dim = 0;  // 1..kMaxStateKeyDim
  int64_t value_dim = 0;
  KeyHeadOrder order = KeyHeadOrder::kGrouped;
  StepStates states = {};

  constexpr int64_t HeadStateFloats() const { return key_dim * value_dim; }
  constexpr int64_t StateFloats() const { return n_heads * HeadStateFloats(); }
  constexpr int64_t TileColumns(int64_t tile) const {
    const int64_t left = value_dim - tile * kStateColumns;
    return left < kStateColumns ? left : kStateColumns;
  }
  // Where a tile of a head is, in floats from the state.
  constexpr int64_t TileAt(int64_t head, int64_t tile) const {
    return head * HeadStateFloats() + tile * kStateColumns * key_dim;
  }
  constexpr int64_t KeyHeadOf(int64_t head) const {
    return order == KeyHeadOrder::kTiled ? head % n_key_heads
                                         : head / (n_heads / n_key_heads);
  }
  // Where a head's key and query are, in floats from k and q.
  constexpr int64_t KeyAt(int64_t row, int64_t head) const {
    return row * stride + KeyHeadOf(head) * key_dim;
  }
  // Where its value is, in floats from v.
  constexpr int64_t ValueAt(int64_t row, int64_t head) const {
    return row * stride + head * value_dim;
  }
  // Where its numbers are, in floats from dt and beta.
  constexpr int64_t GateAt(int64_t row, int64_t head) const {
    const int64_t group = n_heads / n_key_heads;
    return row * gate_stride + head / group * gate_group_stride + head % group;
  }
};

// A norm of each group of a row (RmsNorm, with `eps`), and a gate:
//   out = norm(x) * weight * silu(gate)
// or, with `gates_first`, out = norm(x * silu(gate)) * weight. `out` may be
// `x`.
struct GatedNormArgs {
  const float* x = nullptr;     // [n_rows, n_groups, dim]
  const float* gate = nullptr;  // like x
  int64_t gate_stride = 0;      // floats from one row of `gate` to the next
  const float* weight = nullptr;
  // Whether `weight` is [n_groups, dim]. Otherwise it is [dim].
  bool has_group_weights = false;
  bool gates_first = false;
  float* out = nullptr;  // like x
  int64_t n_rows = 0;
  int64_t n_groups = 0;
  int64_t dim = 0;
  float eps = 0;
  // If not null, it gets `out` packed (PackActivations); dim % 32 == 0 then.
  std::byte* packed = nullptr;

  constexpr int64_t RowFloats() const { return n_groups * dim; }
  constexpr int64_t WeightAt(int64_t group) const {
    return has_group_weights ? group * dim : 0;
  }
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_RECURRENT_H_
