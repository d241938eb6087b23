// Prepares a layer's heads for its attention. A warp takes a head of a row, and
// norms, rotates, transforms and stores it. The bits are those of the separate
// operations.
//
// Common heads stay in registers (PrepareWhole): those of 64, 128 or 256
// elements that are rotated whole. All other heads go through shared memory
// (PrepareEach).
#include "base/status_macros.h"
#include "kernels/cuda/attention/kv_load.cuh"
#include "kernels/cuda/attention/kv_store.cuh"
#include "kernels/cuda/attention/transform.cuh"
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rotate.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpThreads;
// The widest head has this many pieces of a warp's width.
constexpr int kMaxPieces = kMaxHeadDim / kWarpThreads;

// Writes x to `out`, normed if there is a weight. The sum has RmsNorm's order:
// a warp sums each 32 elements, and these sums are added one after the other.
template <int kPieces>
__device__ void NormHead(const float* x, const float* weight, int64_t dim,
                         float eps, float* out) {
  float value[kPieces];
  float factor[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int c = i * kWarpThreads + LaneIndex();
    value[i] = c < dim ? x[c] : 0;
    // The load comes before the sum, so that nothing waits for it after the
    // sum.
    factor[i] = c < dim && weight != nullptr ? weight[c] : 1;
  }
  float scale = 1;
  if (weight != nullptr) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      sum += WarpSum(Fma(value[i], value[i], 0.0f));
    }
    scale = 1.0f / sqrtf(sum / static_cast<float>(dim) + eps);
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int c = i * kWarpThreads + LaneIndex();
    if (c < dim) out[c] = value[i] * scale * factor[i];
  }
}

// Rotates a head; every lane has its own pairs. `out` may be `x`.
__device__ void RotateHead(const PrepareHeadsArgs& p, const float* x,
                           const float* angles, float* out) {
  const int64_t n_pairs = p.n_rot / 2;
  for (int64_t pair = LaneIndex(); pair < n_pairs; pair += kWarpThreads) {
    RotatePair(x, angles + 2 * pair, PairPlace(p.style, pair, n_pairs), out);
  }
  if (out == x) return;
  for (int64_t c = p.n_rot + LaneIndex(); c < p.head_dim; c += kWarpThreads) {
    out[c] = x[c];
  }
}

// The floats of shared memory for each warp: a head, and if keys are
// transformed the rotated head too.
constexpr int64_t SharedFloats(const PrepareHeadsArgs& p) {
  return (IsTransformed(p.k_type) ? 2 : 1) * p.head_dim;
}

// Rotates a head of queries, and transforms it if keys are transformed.
// `rotated` is shared memory for a head.
__device__ void FinishQuery(const PrepareHeadsArgs& p, const float* x,
                            const float* angles, float* rotated, float* out) {
  if (!IsTransformed(p.k_type)) return RotateHead(p, x, angles, out);
  RotateHead(p, x, angles, rotated);
  TransformHead(rotated, p.head_dim);
  for (int64_t c = LaneIndex(); c < p.head_dim; c += kWarpThreads) {
    out[c] = rotated[c];
  }
}

template <DType kType>
__device__ void StoreHead(const float* x, int64_t dim, std::byte* out) {
  for (int64_t c = LaneIndex(); c < dim; c += kWarpThreads) {
    StoreElement<kType>(x[c], c, out);
  }
}

// Stores head `head` of a row in all of the row's places; `offsets` points to
// the first one.
__device__ void StoreHead(const PrepareHeadsArgs& p, const float* x,
                          int64_t head, DType dtype, const int64_t* offsets) {
  std::byte* base = p.base + KvBytes(dtype, head * p.head_dim);
  for (int64_t place = 0; place < p.n_places; ++place) {
    std::byte* out = base + offsets[2 * place * p.n_rows];
    WithKvType(dtype, [&](auto type) {
      StoreHead<decltype(type)::value>(x, p.head_dim, out);
    });
  }
}

// Prepares one head in each warp. `p.offsets` is in device memory.
template <int kPieces>
__global__ void PrepareEach(PrepareHeadsArgs p) {
  WaitForKernelsBefore();
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  float* normed = shared + WarpIndex() * SharedFloats(p);
  float* rotated = normed + p.head_dim;
  const int64_t row = blockIdx.x;
  const int64_t head = int64_t{blockIdx.y} * kWarps + WarpIndex();
  const float* angles = p.angles + row * p.n_rot;
  if (head < p.n_heads) {
    const int64_t at = (row * p.n_heads + head) * p.head_dim;
    NormHead<kPieces>(p.q + at, p.q_norm, p.head_dim, p.eps, normed);
    __syncwarp();
    FinishQuery(p, normed, angles, rotated, p.q + at);
    if (p.q_prefix == nullptr) return;
    __syncwarp();
    return FinishQuery(p, normed, p.prefix_angles + row * p.n_rot, rotated,
                       p.q_prefix + at);
  }
  const int64_t k_head = head - p.n_heads;
  if (k_head < p.n_kv_heads) {
    const int64_t at = (row * p.n_kv_heads + k_head) * p.head_dim;
    NormHead<kPieces>(p.k + at, p.k_norm, p.head_dim, p.eps, normed);
    __syncwarp();
    // A pair is read and written by one lane.
    RotateHead(p, normed, angles, normed);
    if (IsTransformed(p.k_type)) TransformHead(normed, p.head_dim);
    __syncwarp();
    return StoreHead(p, normed, k_head, p.k_type, p.offsets + row);
  }
  const int64_t v_head = k_head - p.n_kv_heads;
  if (v_head >= p.n_kv_heads) return;
  const float* v = p.v + (row * p.n_kv_heads + v_head) * p.head_dim;
  if (IsTransformed(p.v_type)) {
    for (int64_t c = LaneIndex(); c < p.head_dim; c += kWarpThreads) {
      normed[c] = v[c];
    }
    TransformHead(normed, p.head_dim);
    v = normed;
  }
  StoreHead(p, v, v_head, p.v_type, p.offsets + p.n_rows + row);
}

// ---- Heads in registers ----------------------------------------------------

// A lane has elements 32 i + lane of a head.
template <int kPieces>
using Pieces = float[kPieces];

// The angles of the lane's pairs; pairs of kNeox lie in halves of the head.
template <int kPieces>
struct LaneAngles {
  float2 at[kPieces];

  __device__ void Load(const float* angles, RopeStyle style) {
    const bool is_neox = style == RopeStyle::kNeox;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (is_neox && i >= kPieces / 2) break;
      const int c = i * kWarpThreads + LaneIndex();
      at[i] = reinterpret_cast<const float2*>(angles)[is_neox ? c : c / 2];
    }
  }
};

// The operations of RotatePair.
template <int kPieces>
__device__ void RotatePieces(const Pieces<kPieces>& x,
                             const LaneAngles<kPieces>& angles, RopeStyle style,
                             Pieces<kPieces>& out) {
  if (style == RopeStyle::kNeox) {
#pragma unroll
    for (int i = 0; i < kPieces / 2; ++i) {
      const float a = x[i];
      const float b = x[i + kPieces / 2];
      const float2 angle = angles.at[i];
      out[i] = a * angle.x - b * angle.y;
      out[i + kPieces / 2] = a * angle.y + b * angle.x;
    }
    return;
  }
  const bool is_second = LaneIndex() % 2 == 1;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const float other = __shfl_xor_sync(kFullWarp, x[i], 1);
    const float2 angle = angles.at[i];
    const float first = is_second ? other * angle.y : x[i] * angle.x;
    const float second = is_second ? x[i] * angle.x : other * angle.y;
    out[i] = is_second ? first + second : first - second;
  }
}

// NormHead's operations.
template <int kPieces>
__device__ void NormPieces(const Pieces<kPieces>& factor, float eps,
                           Pieces<kPieces>& x) {
  float sums[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) sums[i] = WarpSum(Fma(x[i], x[i], 0.0f));
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) sum += sums[i];
  constexpr auto kDim = static_cast<float>(kPieces * kWarpThreads);
  const float scale = 1.0f / sqrtf(sum / kDim + eps);
#pragma unroll
  for (int i = 0; i < kPieces; ++i) x[i] = x[i] * scale * factor[i];
}

template <int kPieces>
__device__ void WritePieces(const Pieces<kPieces>& x, float* out) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) out[i * kWarpThreads + LaneIndex()] = x[i];
}

template <DType kType, int kPieces>
__device__ void StorePieces(const Pieces<kPieces>& x, std::byte* out) {
  if constexpr (IsKvBlockType(kType)) {
    // All reductions come first, so that none waits for another's block.
    Extent extents[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) extents[i] = ExtentOf(x[i]);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      StoreBlock<kType>(x[i], extents[i],
                        out + KvBytes(kType, i * kWarpThreads));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      StoreElement<kType>(x[i], i * kWarpThreads + LaneIndex(), out);
    }
  }
}

// What happens to the warp's head.
template <int kPieces>
struct HeadWork {
  float* x;
  bool is_query;
  bool is_value;
  int64_t kv_head;
  const float* weight;  // null: no norm

  __device__ HeadWork(const PrepareHeadsArgs& p, int64_t row, int64_t head) {
    constexpr int64_t kDim = kPieces * kWarpThreads;
    is_query = head < p.n_heads;
    is_value = head >= p.n_heads + p.n_kv_heads;
    kv_head = head - p.n_heads - (is_value ? p.n_kv_heads : 0);
    float* kv = is_value ? p.v : p.k;
    x = is_query ? p.q + (row * p.n_heads + head) * kDim
                 : kv + (row * p.n_kv_heads + kv_head) * kDim;
    weight = is_query ? p.q_norm : p.k_norm;
    if (is_value) weight = nullptr;
  }
};

// PrepareEach for heads of kPieces * 32 elements that are rotated whole.
// Weights and the host's offsets are loaded before the kernels before have
// ended, and then all else at once.
template <int kPieces>
__global__ void __launch_bounds__(kThreads)
    PrepareWhole(const __grid_constant__ PrepareHeadsArgs p) {
  LetNextKernelBegin();
  const int lane = LaneIndex();
  const int64_t row = blockIdx.x;
  const int64_t head = int64_t{blockIdx.y} * kWarps + WarpIndex();
  if (head >= p.n_heads + 2 * p.n_kv_heads) {
    WaitForKernelsBefore();
    return;
  }
  const HeadWork<kPieces> work(p, row, head);
  float factor[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    factor[i] =
        work.weight != nullptr ? work.weight[i * kWarpThreads + lane] : 1.0f;
  }
  const int64_t* offsets = p.offsets + (work.is_value ? p.n_rows : 0) + row;
  int64_t offset = work.is_query ? 0 : LoadWritten(offsets);
  WaitForKernelsBefore();
  float x[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) x[i] = work.x[i * kWarpThreads + lane];
  const DType dtype = work.is_value ? p.v_type : p.k_type;
  if (!work.is_value) {
    const bool has_prefix = work.is_query && p.q_prefix != nullptr;
    LaneAngles<kPieces> angles;
    LaneAngles<kPieces> prefix_angles;
    angles.Load(p.angles + row * p.n_rot, p.style);
    if (has_prefix) {
      prefix_angles.Load(p.prefix_angles + row * p.n_rot, p.style);
    }
    if (work.weight != nullptr) NormPieces<kPieces>(factor, p.eps, x);
    float rotated[kPieces];
    if (has_prefix) {
      RotatePieces<kPieces>(x, prefix_angles, p.style, rotated);
      if (IsTransformed(dtype)) TransformPieces<kPieces>(rotated);
      WritePieces<kPieces>(rotated, p.q_prefix + (work.x - p.q));
    }
    RotatePieces<kPieces>(x, angles, p.style, rotated);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) x[i] = rotated[i];
  }
  if (IsTransformed(dtype)) TransformPieces<kPieces>(x);
  if (work.is_query) return WritePieces<kPieces>(x, work.x);
  std::byte* base = p.base + KvBytes(dtype, work.kv_head * p.head_dim);
#pragma unroll 1
  for (int64_t place = 0;;) {
    std::byte* out = base + offset;
    if (++place < p.n_places) {
      offset = LoadWritten(offsets + 2 * place * p.n_rows);
    }
    WithKvType(dtype, [&](auto type) {
      StorePieces<decltype(type)::value, kPieces>(x, out);
    });
    if (place >= p.n_places) break;
  }
}

// Returns the kernel that keeps these heads in registers, or null.
auto* WholeKernel(const PrepareHeadsArgs& args) {
  void (*kernel)(PrepareHeadsArgs) = nullptr;
  if (args.n_rot != args.head_dim) return kernel;
  // Angles are loaded two at a time.
  const uintptr_t bits = reinterpret_cast<uintptr_t>(args.angles) |
                         reinterpret_cast<uintptr_t>(args.prefix_angles);
  if (bits % sizeof(float2) != 0) return kernel;
  if (args.head_dim == 64) kernel = PrepareWhole<2>;
  if (args.head_dim == 128) kernel = PrepareWhole<4>;
  if (args.head_dim == 256) kernel = PrepareWhole<8>;
  return kernel;
}

}  // namespace

absl::Status PrepareHeads(const Context& context,
                          const PrepareHeadsArgs& args) {
  if (args.n_rows == 0) return absl::OkStatus();
  PrepareHeadsArgs given = args;
  if (args.n_kv_heads > 0) {
    ASSIGN_OR_RETURN(given.offsets,
                     context.queue->PutSpan(std::span<const int64_t>(
                         args.offsets, static_cast<size_t>(2 * args.n_places *
                                                           args.n_rows))));
  }
  auto* kernel = PrepareEach<kMaxPieces>;
  if (args.head_dim <= kMaxHeadDim / 2) kernel = PrepareEach<kMaxPieces / 2>;
  if (args.head_dim <= kMaxHeadDim / 4) kernel = PrepareEach<kMaxPieces / 4>;
  if (args.head_dim <= kMaxHeadDim / 8) kernel = PrepareEach<kMaxPieces / 8>;
  const int64_t n_heads = args.n_heads + 2 * args.n_kv_heads;
  if (auto* whole = WholeKernel(args); whole != nullptr) {
    Launch(whole, {args.n_rows, (n_heads + kWarps - 1) / kWarps}, kThreads, 0,
           context.queue, given);
    return absl::OkStatus();
  }
  Launch(kernel, {args.n_rows, (n_heads + kWarps - 1) / kWarps}, kThreads,
         kWarps * SharedFloats(args) * static_cast<int64_t>(sizeof(float)),
         context.queue, given);
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
