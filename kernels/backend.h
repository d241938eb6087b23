// The one interface between models and devices: memory, uploads and about a
// dozen operations over plain structs of views.
//
// Sameness: every op computes a row with the same operations in the same order
// whatever other rows are in the call and however many threads run it, so a
// row's result is bit-identical in any batch (DESIGN.md 4). The reduction over
// K goes block by block (sums inside a quantised block are integers), the
// reduction over keys in blocks of one page or of 64 aligned positions.
//
// Pointers in the structs are device pointers of this backend unless marked
// host. Ops may be asynchronous; Synchronize() is where errors surface. A
// backend is called from one thread at a time.
#ifndef PLIMSOLL_KERNELS_BACKEND_H_
#define PLIMSOLL_KERNELS_BACKEND_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/buffer.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels {

// Keys of one reduction block of attention over a ring.
inline constexpr int64_t kAttentionBlock = 64;
inline constexpr int64_t kMaxHeadDim = 512;
inline constexpr int64_t kMaxCandidates = 64;

// Most bytes that an allocation touches between two questions to its fence.
inline constexpr int64_t kMaxChunkBytes = int64_t{64} << 20;
// Asked before each chunk of an allocation, with the bytes that are touched
// already. An error ends the allocation, and nothing more is touched.
using ChunkFence = absl::FunctionRef<absl::Status(int64_t bytes_done)>;

// How an element type is stored, for the planner (DeviceProfile).
struct StorageFact {
  DType dtype;
  int64_t row_multiple;  // matrix rows are padded to a multiple of this
};

struct DeviceInfo {
  std::string id;    // "cpu", "cuda:0"
  std::string kind;  // "cpu", "cuda"
  std::string name;  // vendor's name and the instruction path in use
  int64_t total_bytes;
  int64_t free_bytes;
  int64_t alignment;  // of tensors and regions
  std::vector<StorageFact> storage;
  int64_t activation_block;        // elements
  int64_t activation_block_bytes;  // bytes per such block when packed
  int64_t scratch_bytes;           // kernels' own, all threads
  bool is_host_memory = true;      // the host may follow its pointers
  std::string unique_id = {};      // of the hardware, in any process; or empty
  // What a driver may take, outside of all that is allocated, for steps that it
  // starts as one (BeginStep). An estimate.
  int64_t graph_bytes = 0;
  // Whether a step's kernels overlap (CudaOptions::programmatic_launches). What
  // was asked for; false as soon as a step shows that they cannot.
  bool has_programmatic_launches = false;
  // Ascending numbers of rows: steps (BeginStep) of up to the first one have
  // the same kernels, and so have those of more up to the second one, and so
  // on, and those of more than the last.
  std::vector<int64_t> step_rows = {};
};

// What a device says of its memory, now.
struct DeviceMemory {
  int64_t total_bytes;
  int64_t free_bytes;
  // What this process's context and code took of it; 0 if nobody measured.
  int64_t runtime_bytes;
};

// out[r] = scale * row tokens[r] of `table`. Shapes: out [n_rows, cols] f32.
struct GetRowsArgs {
  WeightMatrix table;
  const int32_t* tokens;  // host, [n_rows], each in [0, table.rows)
  int64_t n_rows;
  float scale;
  float* out;
};

// out = x * (mean(x^2) + eps)^-1/2 * weight, per row of `dim`; if `accumulate`,
// it is added to `out` instead. `out` may be `x`.
struct RmsNormArgs {
  const float* x;       // [n_rows, dim]
  const float* weight;  // [dim]
  float* out;           // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
  float eps;
  bool accumulate;
  std::byte* packed = nullptr;  // if not null, of `out`: see PackActivations
};

// One norm that adds to what the next one reads: add.accumulate, and norm.x is
// add.out. Both of the same rows; norm.out may be add.x.
struct AddNormArgs {
  RmsNormArgs add;
  RmsNormArgs norm;
};

// Brings activations into the form integer products read: per block of 32
// elements int16 values with one scale, amax / 32512. dim % 32 == 0. Rows that
// are packed together are multiplied together, as their backend arranges them.
struct PackActivationsArgs {
  const float* x;  // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
  std::byte* out;  // [n_rows, dim / activation_block * activation_block_bytes]
};

// What is looked at of a row of outputs: its `k` largest, and those of
// `always`.
struct TopOutputs {
  int64_t k;                        // at least 1
  std::span<const int32_t> always;  // host
};

// Stands for an output that is not looked at.
inline constexpr float kNotComputed = std::numeric_limits<float>::lowest();

// out[m][r] = sum over c of w[r][c] * x[m][c]; if `accumulate`, added to out.
// With `packed` null the product runs in float32 on `x` with weights
// dequantised exactly; otherwise quantised weights meet the packed activations
// in integers (float weight types always use `x`).
struct MatMulArgs {
  WeightMatrix w;           // which no operation between BeginStep and
                            // Synchronize writes; uploads may
  const float* x;           // [n_rows, w.cols]
  const std::byte* packed;  // of x, from PackActivations, or nullptr
  float* out;               // [n_rows, w.rows]
  int64_t n_rows;
  bool accumulate;
  // If not empty, [n_rows]: outputs that are not looked at may be kNotComputed.
  // Not with accumulate.
  std::span<const TopOutputs> top = {};
  // Where outputs saturate, finite and not negative: an output y becomes
  // soft_cap * tanh(y / soft_cap). 0: nowhere. Not with accumulate. What is
  // looked at by `top` are the largest outputs after that.
  float soft_cap = 0;
};

// x[r] += bias, for every row r.
struct AddBiasArgs {
  const float* bias;  // [dim]
  float* x;           // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
};
// Most biases of one AddBiases.
inline constexpr size_t kMaxBiases = 4;

// cos and sin of position * scale * base^(-2p / n_rot) / freq_factors[p] for
// p < n_rot / 2, computed in double precision, times `magnitude`.
struct RopeAnglesArgs {
  const int64_t* positions;  // host, [n_rows]
  int64_t n_rows;
  int64_t n_rot;
  double base;
  double scale;               // 1 / linear scaling factor
  const float* freq_factors;  // [n_rot / 2] or nullptr
  float magnitude;
  float* out;  // [n_rows, n_rot / 2, 2]: cos, sin
};

enum class RopeStyle {
  kNorm,  // pairs (2p, 2p + 1): architecture llama
  kNeox,  // pairs (p, p + n_rot / 2): gemma, qwen
};

// Rotates the first n_rot elements of each head; the rest is copied. `out` may
// be `x`.
struct RopeArgs {
  const float* x;       // [n_rows, n_heads, head_dim]
  const float* angles;  // [n_rows, n_rot / 2, 2]
  float* out;
  int64_t n_rows;
  int64_t n_heads;
  int64_t head_dim;
  int64_t n_rot;
  RopeStyle style;
};

// Row r of x, rounded to `dtype`, goes to base + offsets[r] (kv_row.h).
struct StoreRowsArgs {
  const float* x;  // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;  // whole blocks of dtype
  DType dtype;  // IsKvType
  std::byte* base;
  const int64_t* offsets;  // host, [n_rows]
};

// Queries, keys and values as a layer's products give them become what its
// attention reads: each head of q and k is normed (RmsNorm) where there is a
// weight, then rotated by its row's angles (Rope); rows of k and v are rounded
// and stored (StoreRows) in each of n_places places.
struct PrepareHeadsArgs {
  float* q;             // [n_rows, n_heads, head_dim], in place
  float* q_prefix;      // if not null: the same, rotated by prefix_angles
  float* k;             // [n_rows, n_kv_heads, head_dim], scratch afterwards
  const float* v;       // [n_rows, n_kv_heads, head_dim]
  const float* q_norm;  // [head_dim] or nullptr
  const float* k_norm;
  const float* angles;         // [n_rows, n_rot / 2, 2]
  const float* prefix_angles;  // the same; read where q_prefix is not null
  int64_t n_rows;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;  // <= kMaxHeadDim, whole KV blocks
  int64_t n_rot;
  RopeStyle style;
  float eps;     // of both norms
  DType k_type;  // IsKvType
  DType v_type;
  std::byte* base;
  // Host, [n_places, 2, n_rows]: from `base` on, where a place has the rows of
  // k and where those of v.
  const int64_t* offsets;
  int64_t n_places = 1;
};

// src + src_offsets[r] is copied to dst + dst_offsets[r], row_bytes each.
struct CopyRowsArgs {
  const std::byte* src;
  const int64_t* src_offsets;  // host
  std::byte* dst;
  const int64_t* dst_offsets;  // host
  int64_t n_rows;
  int64_t row_bytes;
};

// Causal attention of the step's rows, one softmax over prefix and recent keys.
//
// A row at position p of a paged layer attends every live key at a position
// <= p in the segment's pages: `q` meets keys of recent pages, `q_prefix` keys
// of prefix pages. On a ring layer it attends positions
// [max(live_begin, p - window + 1), p]: those before the segment's
// first_position in the ring, the others in chunk_k / chunk_v at the row of
// that token. score = scale * q.k, or soft_cap * tanh(scale * q.k / soft_cap);
// out = softmax(score) v in float32. With `sinks` the softmax of head h has one
// more score, sinks[h], which is not capped and whose value is zero.
struct AttentionArgs {
  const float* q;         // [n_rows, n_heads, head_dim], rotated
  const float* q_prefix;  // the same, rotated for prefix pages; may equal q
  float* out;             // [n_rows, n_heads, head_dim]
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;  // <= kMaxHeadDim, a multiple of 16, whole KV blocks
  float scale;
  DType k_type;  // IsKvType
  DType v_type;
  std::span<const AttentionSegment> segments;  // host
  bool is_ring;
  PagedKv paged;             // paged layers
  const std::byte* chunk_k;  // ring layers: [n_rows, n_kv_heads * head_dim]
  const std::byte* chunk_v;
  // If not null, of `out`, whose rows are those of the segments then: see
  // PackActivations.
  std::byte* packed = nullptr;
  // Where scores saturate, finite and not negative; 0: nowhere.
  float soft_cap = 0;
  // [n_heads], finite or minus infinity, which is as good as none; or nullptr.
  const float* sinks = nullptr;
};

// What is left to do of attention for its `packed` once there is `out`.
inline PackActivationsArgs PackingOf(const AttentionArgs& args) {
  int64_t n_rows = 0;
  for (const AttentionSegment& segment : args.segments) {
    n_rows += segment.n_rows;
  }
  return {args.out, n_rows, args.n_heads * args.head_dim, args.packed};
}

enum class Activation { kSilu, kGeluTanh };

// out = activation(gate) * up, elementwise. `out` may be `gate`.
struct GatedActivationArgs {
  const float* gate;  // [n_rows, dim]
  const float* up;
  float* out;
  int64_t n_rows;
  int64_t dim;
  Activation activation;
  std::byte* packed = nullptr;  // if not null, of `out`: see PackActivations
};

// gate.out = activation(gate product) * up product, elementwise: the gated half
// of a feed-forward network. up.out is scratch.
struct GatedMatMulArgs {
  MatMulArgs gate;  // both of the same activations, without accumulate, top or
                    // soft_cap
  MatMulArgs up;    // of as many outputs
  Activation activation;
  // If not null, of the result: see PackActivations. May be gate.packed.
  std::byte* packed = nullptr;
  // Whether anybody reads the result in gate.out, and not only where it is
  // packed.
  bool keeps_floats = true;
};

// The k largest logits of each row in descending order (ties: lowest id
// first), and log(sum(exp(logits))) of the whole row. Where temperatures are
// given, also what all of a row's tokens weigh together at its own: the largest
// one's weight is 1.
struct TopKArgs {
  const float* logits;  // [n_rows, n]
  int64_t n_rows;
  int64_t n;
  int64_t k;            // 1..kMaxCandidates
  float* values;        // host, [n_rows, k]
  int32_t* ids;         // host, [n_rows, k]
  double* log_sum_exp;  // host, [n_rows]; NaN if any logit is not finite
  // Both or neither.
  const float* inverse_temperatures = nullptr;  // host, [n_rows], finite, > 0
  // host, [n_rows]: sum(exp((logit - largest) * inverse_temperature)), or NaN.
  double* masses = nullptr;
};

// What becomes of one token's logit before a draw: `bias` is added, the result
// divided by `repetition` if it is positive and multiplied by it otherwise, and
// `penalty` subtracted.
struct LogitChange {
  int32_t id;
  float bias = 0;
  float repetition = 1;
  float penalty = 0;
};

// A draw from a row of logits, all of it. In order: the changes, what is
// allowed, top_k, typical_p, top_p and min_p on the distribution at temperature
// 1, then the draw at the temperature; in each of these larger logits come
// first, of equal ones lower ids. Greedy is a top_k of 1.
struct SampleArgs {
  const float* logits = nullptr;  // [n]
  int64_t n = 0;
  double u = 0;                   // uniform in [0, 1): says which token
  float inverse_temperature = 1;  // finite, > 0
  int64_t top_k = 0;              // 0: off
  float typical_p = 1;            // in (0, 1], 1: off; distances in float32,
                                  // of equal ones lower ids first
  float top_p = 1;                // in (0, 1], 1: off
  float min_p = 0;                // in [0, 1], 0: off
  std::span<const LogitChange> changes = {};  // host, distinct ids
  // Host; if not empty, only tokens i with bit i % 64 of allowed[i / 64] set.
  std::span<const uint64_t> allowed = {};
};

struct SampledToken {
  int32_t id;
  float logit;   // before the changes
  int64_t rank;  // tokens with larger logits, before the changes
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const DeviceInfo& Device() const = 0;

  // Memory. Allocate rounds up; Buffer::bytes() tells the truth. The memory is
  // zeroed and resident. The fence is asked before any memory is taken, then
  // before each chunk that is zeroed; if it fails, all is given back.
  // Allocations() counts calls since construction.
  // Errors: kResourceExhausted with the bytes wanted; those of the fence.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes, ChunkFence fence) = 0;
  absl::StatusOr<Buffer> Allocate(int64_t bytes) {
    return Allocate(bytes, [](int64_t) { return absl::OkStatus(); });
  }
  virtual int64_t Allocations() const = 0;
  // Host memory, zeroed, which copies of this backend, and of others of its
  // kind, reach without one in between. It may outlive the backend.
  //
  // Errors: kResourceExhausted if there is not enough memory.
  virtual absl::StatusOr<Buffer> AllocateHost(int64_t bytes);
  // Gives the kernels Device().scratch_bytes of the device's memory, which
  // outlives their operations, before the first one; without it they allocate
  // their own then. Backends whose scratch is not the device's ignore it.
  // Errors: kInvalidArgument for too little; kFailedPrecondition if they have
  // some.
  virtual absl::Status UseScratch(BufferView /*scratch*/) {
    return absl::OkStatus();
  }

  // Stores rows [first_row, first_row + n) of a matrix, given in the file's
  // layout, in the backend's layout in `data`, which holds the whole matrix.
  // first_row is a multiple of the row multiple, and so is n except at the
  // end. Errors: kUnimplemented for an element type it cannot run.
  virtual absl::Status UploadRows(DType dtype, int64_t rows, int64_t cols,
                                  int64_t first_row,
                                  std::span<const std::byte> file_rows,
                                  BufferView data) = 0;
  // Plain bytes, for vectors.
  virtual absl::Status Upload(std::span<const std::byte> host,
                              BufferView device) = 0;
  virtual absl::Status Download(BufferView device,
                                std::span<std::byte> host) = 0;

  virtual absl::Status GetRows(const GetRowsArgs& args) = 0;
  virtual absl::Status RmsNorm(const RmsNormArgs& args) = 0;
  // The same as both, one after the other.
  virtual absl::Status AddNorm(const AddNormArgs& args);
  virtual absl::Status PackActivations(const PackActivationsArgs& args) = 0;
  // Products that do not depend on each other, as one operation.
  virtual absl::Status MatMuls(std::span<const MatMulArgs> products) = 0;
  absl::Status MatMul(const MatMulArgs& args) { return MatMuls({&args, 1}); }
  // Adds at most kMaxBiases biases, as one operation, to buffers that do not
  // overlap and have the same number of rows.
  virtual absl::Status AddBiases(std::span<const AddBiasArgs> biases) = 0;
  virtual absl::Status RopeAngles(const RopeAnglesArgs& args) = 0;
  virtual absl::Status Rope(const RopeArgs& args) = 0;
  virtual absl::Status StoreRows(const StoreRowsArgs& args) = 0;
  virtual absl::Status CopyRows(const CopyRowsArgs& args) = 0;
  // Unless a backend has a kernel for it, the operations it is made of.
  virtual absl::Status PrepareHeads(const PrepareHeadsArgs& args);
  virtual absl::Status Attention(const AttentionArgs& args) = 0;
  virtual absl::Status GatedActivation(const GatedActivationArgs& args) = 0;
  // Returns where the packed result lies: at args.packed, or at gate.out where
  // no floats are kept.
  virtual absl::StatusOr<const std::byte*> GatedMatMul(
      const GatedMatMulArgs& args) {
    RETURN_IF_ERROR(MatMuls(std::array{args.gate, args.up}));
    RETURN_IF_ERROR(GatedActivation({.gate = args.gate.out,
                                     .up = args.up.out,
                                     .out = args.gate.out,
                                     .n_rows = args.gate.n_rows,
                                     .dim = args.gate.w.rows,
                                     .activation = args.activation,
                                     .packed = args.packed}));
    return args.packed;
  }
  virtual absl::Status TopK(const TopKArgs& args) = 0;
  // Where the host cannot read rows of logits itself. The token depends on
  // nothing but the arguments; weights are exponentials in float32, summed as
  // integers.
  // Errors: kUnimplemented where it can; kInternal if no token is allowed, or a
  // logit of those that are is not finite after the changes.
  virtual absl::StatusOr<SampledToken> Sample(const SampleArgs& args);

  virtual absl::Status Synchronize() = 0;

  // Operations between BeginStep and EndStep are those of one step that only
  // decodes, with `n_rows` rows; a backend may hold them back until
  // Synchronize, and start them together. Steps of as many rows are expected to
  // be alike. Page tables do not change before EndStep, which starts what was
  // held when the step did not come to its Synchronize.
  virtual absl::Status BeginStep(int64_t /*n_rows*/) {
    return absl::OkStatus();
  }
  virtual absl::Status EndStep() { return absl::OkStatus(); }
  // From now on steps take no more of the driver's memory: what they are
  // started with is what those so far have made.
  virtual void EndWarmUp() {}
};

class ThreadPool;

// The CPU backend on `pool`, which outlives it, with the best instruction path
// that this CPU and its operating system allow.
std::unique_ptr<Backend> NewCpuBackend(ThreadPool& pool);

// The slow obvious one, oracle of the tests. Same storage of weights as in the
// file (row_multiple 1), single thread.
std::unique_ptr<Backend> NewReferenceBackend();

// Which kernels the CUDA backend uses: a row's result has the same bits as long
// as it is computed by the same one (docs/cuda.md).
struct CudaOptions {
  // Whose attention runs on tensor cores.
  enum class TensorAttention { kNone, kPrompts, kAll };
  TensorAttention tensor_attention = TensorAttention::kPrompts;
  // Rows of a step from which on products of packed activations round weights
  // and activations to F16 (2^-12 of each), for some twice the rate or more. A
  // weight beyond 65,504 becomes infinite.
  int64_t half_product_rows = 128;
  // Rows from which on those that do not have blocks of 128 rows; the bits are
  // the same.
  int64_t prompt_product_rows = 128;
  // Kernels of a step's graph may begin before those before have ended, on
  // devices of compute capability 9.0 or later with a driver for CUDA 12.3 or
  // later; the bits are the same.
  bool programmatic_launches = true;
  // Products ask for more of their weights than they can hold before they have
  // their activations; the bits are the same.
  bool prefetches_weights = true;
};

// A row has the same bits alone, in any batch and however its prompt is cut, at
// less than half the rate for prompts.
inline CudaOptions BatchInvariant() {
  CudaOptions options;
  options.tensor_attention = CudaOptions::TensorAttention::kNone;
  options.half_product_rows = std::numeric_limits<int64_t>::max();
  return options;
}

// Errors: kUnimplemented if built without CUDA; kNotFound if there is no such
// device.
absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(
    int device, const CudaOptions& options = {});

// The memory of a device, on which a backend has been made, as it is now.
// Thread-safe. Errors: kUnimplemented; kUnavailable if the device is lost.
absl::StatusOr<DeviceMemory> ReadCudaMemory(int device);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_BACKEND_H_
