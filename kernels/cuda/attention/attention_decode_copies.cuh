// A warp's part of attention of generated tokens (attention_decode.cu): finds
// the steps of a span, and copies their keys and values to shared memory.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_COPIES_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_COPIES_CUH_

#include <algorithm>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention/attention_warp.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpThreads;
constexpr int kKeys = static_cast<int>(kDecodeKeys);
// Results of spans have the sums first, then the maximum and the sum of
// weights, and begin at multiples of 32 bytes.
constexpr int64_t kStateFloats = 8;
// Weights of Q8_0 are multiplied by this, so that weights times a small scale
// keep their bits in F16.
constexpr float kWeightScale = 128.0f;

// Values that a block keeps in shared memory, to save registers in every lane.
struct BlockState {
  AttentionTile tile;
  Step steps[kWarps][2];  // a warp's present step, and the next one
  int32_t is_last;        // 1 in the last of the task's blocks to arrive
};
constexpr int kBlockBytes =
    static_cast<int>((sizeof(BlockState) + 127) / 128 * 128);

template <DType kKvType, int kHeadDim, int kQueriesOfTask>
struct DecodeShape {
  static constexpr bool kIsQuantized = kKvType == DType::kQ8_0;
  static constexpr bool kIsBf16 = kKvType == DType::kBF16;
  static constexpr int kStepKeys = kKeys;
  static constexpr int64_t kKeysOfUnit = kDecodeUnitKeys;
  static constexpr int kSteps = static_cast<int>(kDecodeUnitKeys) / kKeys;
  static constexpr int kHead = kHeadDim;
  static constexpr int kQueries = kQueriesOfTask;
  // A lane's sums: 8 columns, 32 lanes.
  static constexpr int kSums = kHeadDim / 4;
  // The bytes of one head in a stored row.
  static constexpr int kSlice = static_cast<int>(KvBytes(kKvType, kHeadDim));
  static constexpr int kPiece =
      kSlice % 16 == 0 ? 16 : (kSlice % 8 == 0 ? 8 : 4);
  // The bytes of a head's place in shared memory: an odd multiple of 16, so
  // that the lanes of a load meet different banks.
  static constexpr int kRow = (kSlice + 15) / 32 * 32 + 16;
  static constexpr int kPieces = kSlice / kPiece;
  static constexpr int kQueryBytes = kHeadDim / 16 * 512;
  // Blocks of Q8_0, and a word for the scales of two keys in each.
  static constexpr int kBlocksOfHead = kHeadDim / static_cast<int>(kKvBlock);
  static constexpr int kScaleBytes =
      kIsQuantized ? kKeys / 2 * kBlocksOfHead * 4 : 0;
  static constexpr int kWarpBytes = 2 * kKeys * kRow + kScaleBytes;
  // The weights of spans (attention_decode_results.cuh) take the place of
  // queries, keys and values.
  static constexpr int kSpanBytes =
      32 + kQueries * static_cast<int>(kMaxTileSpans) * 8;
  static constexpr int kSharedBytes =
      kBlockBytes + std::max(kQueryBytes + kWarps * kWarpBytes, kSpanBytes);
  // Blocks of a multiprocessor, by its registers and its shared memory.
  static constexpr int kBlocks =
      kHeadDim == 256 ? (kIsQuantized ? 4 : 3) : (kHeadDim == 128 ? 5 : 6);
  static_assert(kSharedBytes <= kMaxSharedBytes);

  // The element of a head that has column 2 t + e (e < 2) or 2 t + 6 + e of the
  // product `s` of scores. The order follows the lanes' loads of keys.
  static __device__ int Element(int s, int t, int e) {
    if constexpr (kIsQuantized) {
      const int shift = s / 2 % 2 == 0 ? 2 : 0;
      return s / 2 * 32 + (s % 2 * 16 + t * 4 + e + shift) % 32;
    } else {
      return KeyPiece(s / 2, t) * 8 + s % 2 * 4 + e;
    }
  }
  // The index of the 16 bytes of a key that lane t loads for two products,
  // `pair`.
  static __device__ int KeyPiece(int pair, int t) {
    return pair / 2 * 8 + t * 2 + pair % 2;
  }
};

// The sizes of units, pages and steps of a paged layer. The host has computed
// them.
struct PageSteps {
  int unit_pages;
  int page_steps;
};

// A warp's way through a span's steps that have live keys: every fourth step.
enum class Pages { kAll, kPrefix, kRecent };
template <class S>
struct Walk {
  int64_t at;    // the next step's page, or in a ring its position
  int64_t past;  // the end of the span
  int cell;      // the next step's place in the page, or its cell of the ring
  int page_steps;

  __device__ Walk(const AttentionShape& shape, const AttentionTile& tile,
                  PageSteps pages, int64_t begin, int64_t end) {
    page_steps = pages.page_steps;
    if (shape.is_ring) {
      at = begin * S::kKeysOfUnit + WarpIndex() * kKeys;
      past = end * S::kKeysOfUnit;
      cell = static_cast<int>(at % tile.window);
      return;
    }
    at = begin * pages.unit_pages;
    past = end * pages.unit_pages;
    if (past > tile.n_pages) past = tile.n_pages;
    cell = WarpIndex();
    SkipPages();
  }

  // Brings `cell` back into a page.
  __device__ void SkipPages() {
    while (cell >= page_steps) {
      cell -= page_steps;
      ++at;
    }
  }

  // Stores the next step, or one without live keys at the end.
  __device__ void Next(const AttentionShape& shape, const Task& task,
                       Pages pages, Step* to) {
    Step found = {};
    while (at < past) {
      if (shape.is_ring) {
        found = RingStep<S>(shape, task, at, cell);
        at += kWarps * kKeys;
        cell += kWarps * kKeys;
        const auto window = static_cast<int>(task.tile.window);
        if (cell >= window) cell %= window;
      } else {
        found = PageStep<S>(shape, task, at, int64_t{cell} * kKeys);
        cell += kWarps;
        SkipPages();
      }
      const bool is_wanted =
          pages == Pages::kAll || found.is_prefix == (pages == Pages::kPrefix);
      if (HasLive(found) && is_wanted) break;
      found = {};
    }
    if (LaneIndex() == 0) *to = found;
    __syncwarp();
  }
};

// Starts copies of 16 heads; row(j) has the head of key j. The lanes that copy
// one head are a power of two in number; the head's last piece may be left
// over.
template <class S, class Row>
__device__ void CopyHeads(std::byte* to, const Row& row) {
  constexpr int kPieceLanes = S::kPieces / 8 * 8;
  constexpr int kSideBySide = kWarpThreads / kPieceLanes;
  static_assert(kPieceLanes * kSideBySide == kWarpThreads &&
                S::kPieces - kPieceLanes <= 1);
  const int lane = LaneIndex();
  const int first = lane / kPieceLanes;
  const int at = lane % kPieceLanes * S::kPiece;
  std::byte* place = to + first * S::kRow + at;
#pragma unroll
  for (int i = 0; i < kKeys; i += kSideBySide) {
    StartCopy<S::kPiece>(place + i * S::kRow, row(i + first) + at);
  }
  if constexpr (S::kPieces > kPieceLanes) {
    constexpr int kLast = kPieceLanes * S::kPiece;
    const std::byte* from = row(lane % kKeys) + kLast;
    if (lane < kKeys) StartCopy<S::kPiece>(to + lane * S::kRow + kLast, from);
  }
}

// Starts copies of 16 heads whose rows may be anywhere: lane j % 16 finds the
// row of key j.
template <class S, class Row>
__device__ void CopyScattered(std::byte* to, const Row& row) {
  const auto mine =
      reinterpret_cast<uint64_t>(row(LaneIndex() % static_cast<int>(kKeys)));
  CopyHeads<S>(to, [&](int key) {
    const auto low = static_cast<uint32_t>(mine);
    const auto high = static_cast<uint32_t>(mine >> 32);
    const uint64_t of_key = __shfl_sync(kFullWarp, low, key) |
                            (uint64_t{__shfl_sync(kFullWarp, high, key)} << 32);
    return reinterpret_cast<const std::byte*>(of_key);
  });
}

// Where the rows of a step's keys are, or of its values.
struct StoredRows {
  const std::byte* rows;  // in a page or in the chunk
  const std::byte* ring;
  int64_t row_bytes;
};

// Copies a step's keys, or its values. A key that is not live may have no row.
// The nearest live key is read instead, and its weight is zero.
template <class S>
__device__ void CopyStep(const Task& task, const Step& step,
                         const StoredRows& stored, std::byte* to) {
  const int64_t row_bytes = stored.row_bytes;
  const int64_t first = int64_t{task.kv_head} * S::kSlice;
  if (HasLive(step)) {
    const bool is_whole = step.begin == 0 && step.end == kKeys;
    const bool is_in_ring = step.ring_end == kKeys;
    if (is_whole && (step.ring_end == 0 ||
                     (is_in_ring && step.cell + kKeys <= step.window))) {
      const std::byte* from =
          (is_in_ring ? stored.ring + step.cell * row_bytes
                      : stored.rows + step.row * row_bytes) +
          first;
      CopyHeads<S>(to, [&](int key) { return from + key * row_bytes; });
    } else {
      CopyScattered<S>(to, [&](int key) {
        return RowOf(step, NearestLive(step, key), stored.rows, stored.ring,
                     row_bytes) +
               first;
      });
    }
  }
  CommitCopies();
}

template <class S>
__device__ void CopyKeys(const AttentionShape& shape, const Task& task,
                         const Step& step, std::byte* to) {
  CopyStep<S>(task, step, {step.k, step.ring_k, shape.k_row_bytes}, to);
}
template <class S>
__device__ void CopyValues(const AttentionShape& shape, const Task& task,
                           const Step& step, std::byte* to) {
  CopyStep<S>(task, step, {step.v, step.ring_v, shape.v_row_bytes}, to);
}

// Brings a step's keys and values to the L2 cache. This is safe even for rows
// that an earlier kernel still writes.
template <class S>
__device__ void PrefetchStep(const AttentionShape& shape, const Task& task,
                             const Step& step) {
  if (!HasLive(step)) return;
  constexpr int kLine = 128;
  constexpr int kLines = (S::kSlice + kLine - 1) / kLine;
  const int64_t first = int64_t{task.kv_head} * S::kSlice;
#pragma unroll
  for (int i = 0; i < kKeys * kLines; i += kWarpThreads) {
    const int at = i + LaneIndex();
    if (at >= kKeys * kLines) break;
    const int key = NearestLive(step, at % kKeys);
    const int64_t place = first + at / kKeys * kLine;
    PrefetchLine(KeyRow(shape, step, key) + place);
    PrefetchLine(ValueRow(shape, step, key) + place);
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_COPIES_CUH_
