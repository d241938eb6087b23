// The one interface between models and devices: memory, uploads and operations
// over plain structs of views.
//
// Same bits: every operation computes a row with the same operations in the
// same order whatever other rows are in the call, however a prompt is cut into
// chunks and however many threads run it. So a row's result is bit-identical in
// any batch (docs/cuda.md says which options of the CUDA backend give this up).
// A sum over K goes block by block, and sums inside a quantised block are
// integers. A sum over keys goes in blocks of one page or of 64 aligned
// positions.
//
// Pointers in the structs are device pointers of this backend unless marked
// "host". Operations may be asynchronous; their errors surface in
// Synchronize(). A backend is called from one thread at a time.
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
#include "kernels/rope.h"
#include "kernels/row_args.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels {

// Attention over a ring sums its keys in blocks of this many.
inline constexpr int64_t kAttentionBlock = 64;
inline constexpr int64_t kMaxHeadDim = 512;
// Attention's queries and keys may be wider than its values.
inline constexpr int64_t kMaxKeyDim = 576;
inline constexpr int64_t kMaxCandidates = 64;

// An allocation touches at most this many bytes between two calls of its fence.
inline constexpr int64_t kMaxChunkBytes = int64_t{64} << 20;
// The fence is called before each chunk of an allocation, with the bytes that
// are touched already. If it returns an error, the allocation ends and nothing
// more is touched.
using ChunkFence = absl::FunctionRef<absl::Status(int64_t bytes_done)>;

// How a device stores an element type. The planner reads it (DeviceProfile).
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
  int64_t alignment;  // bytes, of tensors and regions
  std::vector<StorageFact> storage;
  int64_t activation_block;        // elements
  int64_t activation_block_bytes;  // bytes per such block when packed
  int64_t scratch_bytes;           // for the kernels themselves, all threads
  bool is_host_memory = true;      // the host may follow its pointers
  std::string unique_id = {};      // equal in any process; or empty
  // Estimated bytes that the driver may take for steps that it starts as one
  // (BeginStep). They are outside of all that is allocated.
  int64_t graph_bytes = 0;
  // Whether a step's kernels overlap (CudaOptions::programmatic_launches). It
  // starts as what was asked for and becomes false when a step shows that they
  // cannot.
  bool has_programmatic_launches = false;
  // Groups of steps (BeginStep) with the same kernels, as ascending limits: the
  // first group has up to step_rows[0] rows, the next one up to step_rows[1],
  // and so on; the last one has all other steps.
  std::vector<int64_t> step_rows = {};
};

// What a device reports of its memory at the moment of the call.
struct DeviceMemory {
  int64_t total_bytes;
  int64_t free_bytes;
  // Bytes that this process's context and code took; 0 if nobody measured it.
  int64_t runtime_bytes;
};

// out[r] = scale * row tokens[r] of `table`; if `accumulate`, it is added to
// `out` instead. Shapes: out [n_rows, cols] f32.
struct GetRowsArgs {
  WeightMatrix table;
  const int32_t* tokens;  // host, [n_rows], each in [0, table.rows)
  int64_t n_rows;
  float scale;
  float* out;
  bool accumulate = false;
};

// out = x * (mean(x^2) + eps)^-1/2 * weight, per row of `dim`; if `accumulate`,
// it is added to `out` instead. The result, or the sum, is multiplied by
// `scale`. If `subtracts_mean`, x is the row less its mean (layer norm). `out`
// may be `x`.
struct RmsNormArgs {
  const float* x;       // [n_rows, dim], x_stride floats from row to row
  const float* weight;  // [dim], or nullptr: every weight is 1
  float* out;           // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
  float eps;
  bool accumulate;
  // If not null, it gets `out` packed (PackActivations).
  std::byte* packed = nullptr;
  float scale = 1;
  bool subtracts_mean = false;
  // [n_rows, dim], or nullptr. A norm with it also has the factor
  // mean(like^2)^1/2 of its row: `out` gets the size of `like`.
  const float* like = nullptr;
  int64_t x_stride = 0;  // at least dim; 0: dim

  constexpr int64_t XStride() const { return x_stride == 0 ? dim : x_stride; }
};

// Two norms as one operation: the second one reads the sum that the first one
// adds to. `add` has accumulate set, norm.x is add.out, and both have the same
// rows. norm.out may be add.x.
struct AddNormArgs {
  RmsNormArgs add;
  RmsNormArgs norm;
};

// Packs activations for integer products: each block of 32 elements becomes
// int16 values with one scale, amax / 32512. dim % 32 == 0. Rows that are
// packed together are multiplied together, in the order that the backend gives
// them.
struct PackActivationsArgs {
  const float* x;  // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
  std::byte* out;  // [n_rows, dim / activation_block * activation_block_bytes]
};

// Which outputs of a row are read: its `k` largest, and those in `always`.
struct TopOutputs {
  int64_t k;                        // at least 1
  std::span<const int32_t> always;  // host, output ids
};

// The value of an output that nobody reads.
inline constexpr float kNotComputed = std::numeric_limits<float>::lowest();

// out[m][r] = sum over c of w[r][c] * x[m][c]; if `accumulate`, the product is
// added to out. If `packed` is null, the product runs in float32 on `x`, with
// weights dequantised exactly. Otherwise quantised weights meet the packed
// activations in integers. Float weight types always use `x`.
struct MatMulArgs {
  WeightMatrix w;           // no operation between BeginStep and
                            // Synchronize writes it; uploads may
  const float* x;           // [n_rows, w.cols]
  const std::byte* packed;  // PackActivations' result for x, or nullptr
  float* out;               // [n_rows, w.rows]
  int64_t n_rows;
  bool accumulate;
  // If not empty, [n_rows]: outputs that nobody reads may be kNotComputed. Not
  // allowed with accumulate.
  std::span<const TopOutputs> top = {};
  // Finite, not negative: an output y becomes soft_cap * tanh(y / soft_cap). 0:
  // there is no cap. Not allowed with accumulate. `top` means the largest
  // outputs after the cap.
  float soft_cap = 0;
};

// x[r] += bias, for every row r.
struct AddBiasArgs {
  const float* bias;  // [dim]
  float* x;           // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
};
// AddBiases takes at most this many biases.
inline constexpr size_t kMaxBiases = 4;

// Row r of x, rounded to `dtype`, goes to base + offsets[r] (kv_row.h).
struct StoreRowsArgs {
  const float* x;  // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;  // whole blocks of dtype
  DType dtype;  // IsKvType
  std::byte* base;
  const int64_t* offsets;  // host, [n_rows]
};

// Turns queries, keys and values, as a layer's products give them, into what
// its attention reads. Each head of q and k is normed (RmsNorm) where it has a
// weight, then rotated by its row's angles (Rope) and, as v is, transformed if
// its type asks for it (hadamard.h). Rows of k and v are rounded and stored
// (StoreRows) in each of n_places places; without KV heads there are none.
struct PrepareHeadsArgs {
  float* q;             // [n_rows, n_heads, head_dim], in place
  float* q_prefix;      // if not null: q rotated by prefix_angles
  float* k;             // [n_rows, n_kv_heads, head_dim], scratch afterwards
  float* v;             // [n_rows, n_kv_heads, head_dim], scratch afterwards
  const float* q_norm;  // [head_dim] or nullptr
  const float* k_norm;
  const float* angles;         // [n_rows, n_rot / 2, 2]
  const float* prefix_angles;  // like angles; used if q_prefix is set
  int64_t n_rows;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;  // <= kMaxHeadDim, whole KV blocks
  int64_t n_rot;
  RopeStyle style;
  float eps;     // epsilon of q_norm and k_norm
  DType k_type;  // IsKvType
  DType v_type;
  std::byte* base;
  // Host, [n_places, 2, n_rows]: the bytes from `base` to where a place has
  // each row of k, then to where it has each row of v.
  const int64_t* offsets;
  int64_t n_places = 1;
};

// Copies row_bytes from src + src_offsets[r] to dst + dst_offsets[r].
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
  const float* q_prefix;  // like q, rotated for prefix pages; may equal q
  float* out;             // [n_rows, n_heads, ValueDim()]
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;  // <= kMaxKeyDim, a multiple of 16, whole KV blocks
  float scale;
  DType k_type;  // IsKvType
  DType v_type;
  std::span<const AttentionSegment> segments;  // host
  bool is_ring;
  PagedKv paged;             // paged layers
  const std::byte* chunk_k;  // ring layers: [n_rows, n_kv_heads * head_dim]
  const std::byte* chunk_v;
  // If not null, it gets `out` packed (PackActivations). The rows of `out` are
  // then exactly those of the segments.
  std::byte* packed = nullptr;
  // Finite, not negative: scores saturate at it. 0: there is no cap.
  float soft_cap = 0;
  // [n_heads] or nullptr. Each is finite, or minus infinity, which acts as if
  // the head had no sink.
  const float* sinks = nullptr;
  // The number of elements that are read of a head of values, from its first
  // one on; 0: head_dim. A row of values is still as long as a row of keys, so
  // it may be one. <= kMaxHeadDim, a multiple of 16, whole KV blocks.
  int64_t value_dim = 0;

  int64_t ValueDim() const { return value_dim == 0 ? head_dim : value_dim; }
};

// The packing that remains once `out` is computed: `out` into `packed`.
inline PackActivationsArgs PackingOf(const AttentionArgs& args) {
  int64_t n_rows = 0;
  for (const AttentionSegment& segment : args.segments) {
    n_rows += segment.n_rows;
  }
  return {args.out, n_rows, args.n_heads * args.ValueDim(), args.packed};
}

// The function that is applied to a gate before the gate multiplies `up`.
enum class Activation {
  kSilu,
  kGeluTanh,
  // x / (1 + exp(-kSwishSlope x)) where x is the gate, at most kSwishLimit. It
  // multiplies 1 + up, where up is clamped to [-kSwishLimit, kSwishLimit]. NaN
  // stays NaN.
  kClampedSwish,
  kRelu,     // max(x, 0); NaN stays NaN
  kSigmoid,  // 1 / (1 + exp(-x))
};
inline constexpr float kSwishSlope = 1.702f;
inline constexpr float kSwishLimit = 7;

// out = activation(gate) * up, elementwise. `out` may be `gate` or `up` if the
// rows of that one lie side by side.
struct GatedActivationArgs {
  const float* gate;  // [n_rows, dim], gate_stride floats from row to row
  const float* up;    // [n_rows, dim], up_stride floats from row to row
  float* out;
  int64_t n_rows;
  int64_t dim;
  Activation activation;
  // If not null, it gets `out` packed (PackActivations).
  std::byte* packed = nullptr;
  int64_t up_stride = 0;    // at least dim; 0: dim
  int64_t gate_stride = 0;  // like up_stride

  constexpr int64_t UpStride() const {
    return up_stride == 0 ? dim : up_stride;
  }
  constexpr int64_t GateStride() const {
    return gate_stride == 0 ? dim : gate_stride;
  }
};

// gate.out = activation(gate product) * up product, elementwise: the gated half
// of a feed-forward network. up.out is scratch.
struct GatedMatMulArgs {
  MatMulArgs gate;  // both products have the same activations and no
                    // accumulate, top or soft_cap
  MatMulArgs up;    // has as many outputs as gate
  Activation activation;
  // If not null, it gets the result packed (PackActivations). May be
  // gate.packed.
  std::byte* packed = nullptr;
  // False if the result is only read where it is packed, not in gate.out.
  bool keeps_floats = true;
};

// These are in experts.h, hadamard.h, heads.h and recurrent.h.
struct RouteExpertsArgs;
struct GatedExpertMatMulArgs;
struct ExpertSumMatMulArgs;
struct HadamardArgs;
struct HeadMatMulArgs;
struct CausalConvArgs;
struct StateScanArgs;
struct GatedNormArgs;

// The k largest logits of each row in descending order (equal ones by ascending
// id), and log(sum(exp(logits))) of the whole row. With inverse_temperatures,
// `masses` gets the total weight of the row's tokens at its temperature; the
// largest logit has weight 1.
struct TopKArgs {
  const float* logits;  // [n_rows, n]
  int64_t n_rows;
  int64_t n;
  int64_t k;            // 1..kMaxCandidates
  float* values;        // host, [n_rows, k]
  int32_t* ids;         // host, [n_rows, k]
  double* log_sum_exp;  // host, [n_rows]; NaN if any logit is not finite
  // Give both of these or neither.
  const float* inverse_temperatures = nullptr;  // host, [n_rows], finite, > 0
  // host, [n_rows]: sum(exp((logit - largest) * inverse_temperature)), or NaN.
  double* masses = nullptr;
};

// A change of one token's logit before a draw: `bias` is added, then the result
// is divided by `repetition` if it is positive and multiplied by it otherwise,
// then `penalty` is subtracted.
struct LogitChange {
  int32_t id;
  float bias = 0;
  float repetition = 1;
  float penalty = 0;
};

// A draw from the whole of a row of logits. The steps are, in order: `changes`;
// `allowed`; top_k, typical_p, top_p and min_p on the distribution at
// temperature 1; the draw at the temperature. Each step takes larger logits
// first, and lower ids among equal ones. Greedy sampling is a top_k of 1.
struct SampleArgs {
  const float* logits = nullptr;  // [n]
  int64_t n = 0;
  double u = 0;                   // uniform in [0, 1): chooses the token
  float inverse_temperature = 1;  // finite, > 0
  int64_t top_k = 0;              // 0: off
  float typical_p = 1;            // in (0, 1], 1: off; distances are float32,
                                  // equal ones by ascending id
  float top_p = 1;                // in (0, 1], 1: off
  float min_p = 0;                // in [0, 1], 0: off
  std::span<const LogitChange> changes = {};  // host, distinct ids
  // Host. If not empty, only tokens i with bit i % 64 of allowed[i / 64] set
  // may be drawn.
  std::span<const uint64_t> allowed = {};
};

struct SampledToken {
  int32_t id;
  float logit;   // before the changes
  int64_t rank;  // how many tokens had larger logits before the changes
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const DeviceInfo& Device() const = 0;

  // Allocates device memory, zeroed and resident. Allocate rounds up;
  // Buffer::bytes() is what was taken. The fence is called before any memory is
  // taken and before each chunk that is zeroed; if it fails, all of it is given
  // back. Errors: kResourceExhausted with the bytes wanted; the fence's errors.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes, ChunkFence fence) = 0;
  absl::StatusOr<Buffer> Allocate(int64_t bytes) {
    return Allocate(bytes, [](int64_t) { return absl::OkStatus(); });
  }
  virtual int64_t Allocations() const = 0;
  // Allocates host memory, zeroed. Copies of this backend, and of others of its
  // kind, read and write it without a copy in between. It may outlive the
  // backend.
  //
  // Errors: kResourceExhausted if there is not enough memory.
  virtual absl::StatusOr<Buffer> AllocateHost(int64_t bytes);
  // Gives the kernels Device().scratch_bytes of the device's memory. It is
  // called before the first operation, and the memory outlives all operations;
  // without it the kernels allocate their own scratch at the first operation.
  // Backends whose scratch is not device memory ignore it.
  // Errors: kInvalidArgument if it is too small; kFailedPrecondition if the
  // kernels have scratch already.
  virtual absl::Status UseScratch(BufferView /*scratch*/) {
    return absl::OkStatus();
  }

  // Stores rows of a matrix in the backend's layout in `matrix`, which holds
  // the whole matrix. first_row is a multiple of the row multiple, and so is
  // the number of rows except at the matrix's end. Errors: kUnimplemented for
  // an element type that the backend cannot run.
  virtual absl::Status UploadRows(const WeightRows& rows,
                                  BufferView matrix) = 0;
  // Upload and Download copy plain bytes, for vectors.
  virtual absl::Status Upload(std::span<const std::byte> host,
                              BufferView device) = 0;
  virtual absl::Status Download(BufferView device,
                                std::span<std::byte> host) = 0;
  // Zeroes plain bytes. A step with it (BeginStep) does not start as one.
  virtual absl::Status Clear(BufferView memory) = 0;

  virtual absl::Status GetRows(const GetRowsArgs& args) = 0;
  virtual absl::Status RmsNorm(const RmsNormArgs& args) = 0;
  // Does args.add, then args.norm, with the same bits as the two operations.
  virtual absl::Status AddNorm(const AddNormArgs& args);
  virtual absl::Status PackActivations(const PackActivationsArgs& args) = 0;
  // Runs products that do not depend on each other as one operation.
  virtual absl::Status MatMuls(std::span<const MatMulArgs> products) = 0;
  absl::Status MatMul(const MatMulArgs& args) { return MatMuls({&args, 1}); }
  virtual absl::Status HeadMatMul(const HeadMatMulArgs& args) = 0;
  // Adds at most kMaxBiases biases, as one operation, to buffers that do not
  // overlap and have the same number of rows.
  virtual absl::Status AddBiases(std::span<const AddBiasArgs> biases) = 0;
  virtual absl::Status RopeAngles(const RopeAnglesArgs& args) = 0;
  virtual absl::Status Rope(const RopeArgs& args) = 0;
  virtual absl::Status ScaleRows(const ScaleRowsArgs& args) = 0;
  virtual absl::Status CutRows(const CutRowsArgs& args) = 0;
  virtual absl::Status MixRows(const MixRowsArgs& args) = 0;
  virtual absl::Status Hadamard(const HadamardArgs& args) = 0;
  virtual absl::Status StoreRows(const StoreRowsArgs& args) = 0;
  virtual absl::Status CopyRows(const CopyRowsArgs& args) = 0;
  // Runs the operations that it is made of, unless a backend overrides it with
  // a kernel of its own.
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
  // The bits of a row do not depend on which other rows its experts compute.
  // GatedExpertMatMul returns where the packed result lies.
  virtual absl::Status RouteExperts(const RouteExpertsArgs& args) = 0;
  virtual absl::StatusOr<const std::byte*> GatedExpertMatMul(
      const GatedExpertMatMulArgs& args) = 0;
  virtual absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args) = 0;
  // CausalConv and StateScan take the rows of each sequence in order.
  virtual absl::Status CausalConv(const CausalConvArgs& args) = 0;
  virtual absl::Status StateScan(const StateScanArgs& args) = 0;
  virtual absl::Status GatedNorm(const GatedNormArgs& args) = 0;
  virtual absl::Status TopK(const TopKArgs& args) = 0;
  // Draws a token where the host cannot read rows of logits itself. The token
  // depends only on the arguments: weights are exponentials in float32, summed
  // as integers.
  // Errors: kUnimplemented where the host can read them; kInternal if no token
  // is allowed, or if the logit of an allowed one is not finite after the
  // changes.
  virtual absl::StatusOr<SampledToken> Sample(const SampleArgs& args);

  virtual absl::Status Synchronize() = 0;

  // Operations between BeginStep and EndStep are one step that only decodes,
  // with `n_rows` rows. A backend may hold them back until Synchronize and
  // start them together. Steps with the same number of rows are expected to be
  // alike. Page tables do not change before EndStep. EndStep starts what is
  // still held if the step ended without its Synchronize.
  virtual absl::Status BeginStep(int64_t /*n_rows*/) {
    return absl::OkStatus();
  }
  virtual absl::Status EndStep() { return absl::OkStatus(); }
  // From now on, steps build no graphs and take no more of the driver's memory.
  virtual void EndWarmUp() {}
};

class ThreadPool;

// The CPU backend on `pool`, which outlives it, with the best instruction path
// that this CPU and its operating system allow.
std::unique_ptr<Backend> NewCpuBackend(ThreadPool& pool);

// The reference backend: slow and obvious, the oracle of the tests. It stores
// weights as the file does (row_multiple 1) and runs on one thread.
std::unique_ptr<Backend> NewReferenceBackend();

// Which kernels the CUDA backend uses. A row's result has the same bits as long
// as the same kernel computes it (docs/cuda.md).
struct CudaOptions {
  // Which rows' attention runs on tensor cores. kNone: none, for one kernel for
  // all rows. kPrompts: those of prompts with one kernel and generated tokens
  // with another. kAll: all with the prompts' kernel.
  enum class TensorAttention { kNone, kPrompts, kAll };
  TensorAttention tensor_attention = TensorAttention::kPrompts;
  // Attention of a generated token that sees n times 64 keys is cut into up to
  // about sqrt(n * decode_spans) spans. They are computed at the same time and
  // then merged.
  int64_t decode_spans = 8;
  // Steps of at least this many rows round weights and activations of packed
  // products to F16 (2^-12 of each), at twice the rate or more. A weight beyond
  // 65,504 becomes infinite.
  int64_t half_product_rows = 128;
  // On devices of compute capability 9.0, in builds that have code for 90a,
  // steps of at least this many rows do the same with the instructions of a
  // warpgroup (wgmma).
  int64_t wgmma_rows = 9;
  // On devices of compute capability 9.0 or later, products of up to eight rows
  // read weights through shared memory. Their sums have another order.
  bool streams_weights = true;
  // Products of up to 64 rows with wgmma do so too. Their columns have
  // few_row_slices slices; 0 chooses the number. The bits depend on both.
  bool streams_few_rows = true;
  int64_t few_row_slices = 0;
  // Attention of prompts uses wgmma too, for heads of up to 256 elements.
  bool wgmma_attention = true;
  // Attention of prompts cuts the keys of heads of up to 256 elements into this
  // many slices, at most 4, so that a step of few rows fills the device; 0: as
  // many as a step of 512 rows needs. The bits of a row depend on it.
  int64_t prompt_attention_slices = 0;
  // Products that are not rounded to F16 use blocks of 128 rows from this many
  // rows on. The bits are the same.
  int64_t prompt_product_rows = 128;
  // Kernels of graphs of few rows may begin before earlier ones have ended, on
  // devices of compute capability 9.0 or later with a driver for CUDA 12.3 or
  // later. The bits are the same.
  bool programmatic_launches = true;
  // Products prefetch weights into the cache before their activations are
  // ready. The bits are the same.
  bool prefetches_weights = true;
};

// Options with which a row has the same bits alone, in any batch and however
// its prompt is cut. Prompts run at less than half the rate.
inline CudaOptions BatchInvariant() {
  CudaOptions options;
  options.tensor_attention = CudaOptions::TensorAttention::kNone;
  options.half_product_rows = std::numeric_limits<int64_t>::max();
  options.wgmma_rows = std::numeric_limits<int64_t>::max();
  options.streams_weights = false;
  return options;
}

// Errors: kUnimplemented if built without CUDA; kNotFound if there is no such
// device.
absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(
    int device, const CudaOptions& options = {});

// The memory of a device as it is now. A backend must have been made on the
// device. Thread-safe. Errors: kUnimplemented if built without CUDA;
// kUnavailable if the device is lost.
absl::StatusOr<DeviceMemory> ReadCudaMemory(int device);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_BACKEND_H_
