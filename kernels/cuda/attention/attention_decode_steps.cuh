// What a warp does with 16 keys in attention of generated tokens
// (attention_decode.cu): how it brings, multiplies and weighs them.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_STEPS_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_STEPS_CUH_

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention/attention_decode.cuh"
#include "kernels/cuda/mat_mul/matrix.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpThreads;
constexpr int kKeys = static_cast<int>(kDecodeKeys);
// Results of spans have the sums first, then the maximum and the sum of
// weights, and begin at multiples of 32 bytes.
constexpr int64_t kStateFloats = 8;
// Weights of Q8_0 are multiplied by this, so that those times a small scale
// keep their bits in F16.
constexpr float kWeightScale = 128.0f;

// What a block keeps in shared memory rather than in every lane's registers.
struct BlockState {
  AttentionTile tile;
  Step steps[kWarps][2];  // the step that a warp is at, and the next one
  int32_t is_last;        // of the task's blocks
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
  static constexpr int kSums = kHeadDim / 4;  // a lane's: 8 columns, 32 lanes
  // A head of a stored row, and how it is copied.
  static constexpr int kSlice = static_cast<int>(KvBytes(kKvType, kHeadDim));
  static constexpr int kPiece =
      kSlice % 16 == 0 ? 16 : (kSlice % 8 == 0 ? 8 : 4);
  // Its place in shared memory: an odd multiple of 16 bytes, so that the lanes
  // of a load meet different banks.
  static constexpr int kRow = (kSlice + 15) / 32 * 32 + 16;
  static constexpr int kPieces = kSlice / kPiece;
  static constexpr int kQueryBytes = kHeadDim / 16 * 512;
  static constexpr int kWarpBytes = 2 * kKeys * kRow;
  // The weights of spans (attention_decode_results.cuh) lie where queries, keys
  // and values were.
  static constexpr int kSpanBytes =
      32 + kQueries * static_cast<int>(kMaxTileSpans) * 8;
  static constexpr int kSharedBytes =
      kBlockBytes + std::max(kQueryBytes + kWarps * kWarpBytes, kSpanBytes);
  // Blocks of a multiprocessor, by its registers and its shared memory.
  static constexpr int kBlocks =
      kHeadDim == 256 ? (kIsQuantized ? 4 : 3) : (kHeadDim == 128 ? 5 : 6);
  static_assert(kSharedBytes <= kMaxSharedBytes);

  // The element of a head that has column 2 t + e (e < 2) or 2 t + 6 + e of the
  // product `s` of scores. The order is that in which a lane loads keys.
  static __device__ int Element(int s, int t, int e) {
    if constexpr (kIsQuantized) {
      const int shift = s / 2 % 2 == 0 ? 2 : 0;
      return s / 2 * 32 + (s % 2 * 16 + t * 4 + e + shift) % 32;
    } else {
      return KeyPiece(s / 2, t) * 8 + s % 2 * 4 + e;
    }
  }
  // Which 16 bytes of a key lane t loads for two products, `pair`.
  static __device__ int KeyPiece(int pair, int t) {
    return pair / 2 * 8 + t * 2 + pair % 2;
  }
};

// How units, pages and steps of a paged layer fit together. The host has
// computed it.
struct PageSteps {
  int unit_pages;
  int page_steps;
};

// A warp's way through a span's steps that have live keys: every fourth step.
enum class Pages { kAll, kPrefix, kRecent };
template <class S>
struct Walk {
  int64_t at;    // the next step's page, or in a ring its position
  int64_t past;  // where the span ends
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

// Starts copies of 16 heads, the one of key j from row(j). As many lanes as a
// power of two copy one head; its last piece may be left over.
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

// Starts copies of 16 heads whose rows lie anywhere: lane j % 16 finds the row
// of key j.
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

// Copies a step's keys, or its values. For a key that is not live there may be
// no row, so the nearest live one is read instead; its weight is zero.
template <class S>
__device__ void CopyStep(const Task& task, const Step& step,
                         const std::byte* rows, const std::byte* ring,
                         int64_t row_bytes, std::byte* to) {
  const int64_t first = int64_t{task.kv_head} * S::kSlice;
  if (HasLive(step)) {
    const bool is_whole = step.begin == 0 && step.end == kKeys;
    const bool is_in_ring = step.ring_end == kKeys;
    if (is_whole && (step.ring_end == 0 ||
                     (is_in_ring && step.cell + kKeys <= step.window))) {
      const std::byte* from = (is_in_ring ? ring + step.cell * row_bytes
                                          : rows + step.row * row_bytes) +
                              first;
      CopyHeads<S>(to, [&](int key) { return from + key * row_bytes; });
    } else {
      CopyScattered<S>(to, [&](int key) {
        return RowOf(step, NearestLive(step, key), rows, ring, row_bytes) +
               first;
      });
    }
  }
  CommitCopies();
}

template <class S>
__device__ void CopyKeys(const AttentionShape& shape, const Task& task,
                         const Step& step, std::byte* to) {
  CopyStep<S>(task, step, step.k, step.ring_k, shape.k_row_bytes, to);
}
template <class S>
__device__ void CopyValues(const AttentionShape& shape, const Task& task,
                           const Step& step, std::byte* to) {
  CopyStep<S>(task, step, step.v, step.ring_v, shape.v_row_bytes, to);
}

// Brings a step's keys and values to the L2 cache. Rows that a kernel before
// still writes are not harmed by that.
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

// Stores the block's queries as operands, 16 bytes a lane for each product.
template <class S>
__device__ void StageDecodeQueries(const AttentionShape& shape,
                                   const Task& task, bool is_prefix,
                                   uint4* queries) {
  constexpr int kPerWarp = S::kHead / 16 / kWarps;
  const float* from = is_prefix ? shape.q_prefix : shape.q;
  const int lane = LaneIndex();
  const int query = lane / 4 % S::kQueries;
  const bool has = task.Has(query);
  if (has) from += task.Index(query, shape.n_heads) * S::kHead;
  float2 x[kPerWarp][2];
#pragma unroll
  for (int i = 0; i < kPerWarp; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      x[i][half] = {0, 0};
      if (!has) continue;
      // Elements 2 half and 2 half + 1 lie side by side.
      x[i][half] = *reinterpret_cast<const float2*>(
          from + S::Element(i * kWarps + WarpIndex(), lane % 4, 2 * half));
    }
  }
#pragma unroll
  for (int i = 0; i < kPerWarp; ++i) {
    const SplitPair first = Split<S::kIsBf16>(x[i][0].x, x[i][0].y);
    const SplitPair second = Split<S::kIsBf16>(x[i][1].x, x[i][1].y);
    queries[(i * kWarps + WarpIndex()) * kWarpThreads + lane] = {
        first.high, first.low, second.high, second.low};
  }
}

__device__ inline uint32_t SharedWord(const std::byte* at) {
  return *reinterpret_cast<const uint32_t*>(at);
}

// Four levels of block `block` of a row of Q8_0. Blocks have 34 bytes, so those
// of odd blocks lie in words. In an even block, word i has the elements from 4
// i + 2 on; the last word has the block's last two and then its first two.
// With kMayBeLast, `i` may be 7.
template <bool kMayBeLast>
__device__ uint32_t LevelWord(const std::byte* row, int block, int i) {
  const std::byte* from = row + block * static_cast<int>(kQ80Bytes);
  if (block % 2 == 1) return SharedWord(from + 2 + i * 4);
  if constexpr (!kMayBeLast) return SharedWord(from + 4 + i * 4);
  const bool is_last = i == 7;
  const uint32_t word = SharedWord(from + (is_last ? 0 : 4 + i * 4));
  const uint32_t past = SharedWord(from + kKvBlock);
  return PickBytes(word, past, is_last ? 0x3254u : 0x3210u);
}

__device__ inline float ScaleOf(const std::byte* row, int block) {
  return FloatOfHalf(*reinterpret_cast<const uint16_t*>(
      row + block * static_cast<int>(kQ80Bytes)));
}

__device__ inline void ScoreProduct(bool is_bf16, const uint4& q, uint32_t low,
                                    uint32_t high, float* sums) {
  const uint32_t a[4] = {q.x, q.y, q.z, q.w};
  const uint32_t b[2] = {low, high};
  if (is_bf16) {
    MmaFloat<true>(a, b, sums);
  } else {
    MmaFloat<false>(a, b, sums);
  }
}

// The scores of 16 keys, not scaled: with g = lane / 4 and t = lane % 4, entry
// [n][e] is that of query g and key 8 n + 2 t + e.
template <class S>
__device__ void ScoreKeys(const std::byte* keys, const uint4* queries,
                          float scores[2][2]) {
  const int lane = LaneIndex();
  const int t = lane % 4;
  const std::byte* rows[2] = {keys + lane / 4 * S::kRow,
                              keys + (lane / 4 + 8) * S::kRow};
  for (int n = 0; n < 2; ++n) scores[n][0] = scores[n][1] = 0;
  float sums[2][4] = {};
  float others[2][4] = {};  // so that fewer products wait for each other
#pragma unroll
  for (int pair = 0; pair < S::kHead / 32; ++pair) {
    const uint4 q[2] = {queries[pair * 2 * kWarpThreads + lane],
                        queries[(pair * 2 + 1) * kWarpThreads + lane]};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if constexpr (S::kIsQuantized) {
        for (float& sum : sums[n]) sum = 0;
        const uint32_t words[2] = {LevelWord<false>(rows[n], pair, t),
                                   LevelWord<true>(rows[n], pair, t + 4)};
        for (int s = 0; s < 2; ++s) {
          ScoreProduct(false, q[s], PairOfBytes<true, 0, 1>(words[s]),
                       PairOfBytes<true, 2, 3>(words[s]), sums[n]);
        }
        for (int e = 0; e < 2; ++e) {
          const float d = ScaleOf(keys + (n * 8 + t * 2 + e) * S::kRow, pair);
          scores[n][e] = Fma(d, sums[n][e] + sums[n][2 + e], scores[n][e]);
        }
      } else {
        const uint4 k = *reinterpret_cast<const uint4*>(
            rows[n] + S::KeyPiece(pair, t) * 16);
        ScoreProduct(S::kIsBf16, q[0], k.x, k.y, sums[n]);
        ScoreProduct(S::kIsBf16, q[1], k.z, k.w, others[n]);
      }
    }
  }
  if constexpr (!S::kIsQuantized) {
    for (int n = 0; n < 2; ++n) {
      for (int e = 0; e < 2; ++e) {
        scores[n][e] =
            (sums[n][e] + others[n][e]) + (sums[n][2 + e] + others[n][2 + e]);
      }
    }
  }
}

// Turns scores into weights of the lane's query, which is of row `row` of the
// tile. Returns what earlier sums are
// multiplied by. `state.total` is this lane's part. A score that is not a
// number makes the total not a number.
template <class S>
__device__ float WeighKeys(const AttentionShape& shape, const Task& task,
                           const Step& step, int row, Softmax& state,
                           float scores[2][2]) {
  const int lane = LaneIndex();
  const int64_t past = task.tile.first_position + row + 1 - step.position;
  const int64_t first =
      shape.is_ring ? FirstOfRing(task, row) - step.position : 0;
  const int begin = first < step.begin ? step.begin : StepKey<S>(first);
  const int end = past < step.end ? StepKey<S>(past) : step.end;
  float max = state.max;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    for (int e = 0; e < 2; ++e) {
      const int key = n * 8 + lane % 4 * 2 + e;
      float score = scores[n][e] * shape.scale;
      if (shape.soft_cap > 0.0f) score = Capped(shape, score);
      scores[n][e] = key >= begin && key < end ? score : MinusInfinity();
      max = fmaxf(max, scores[n][e]);
    }
  }
  for (int mask = 1; mask < 4; mask *= 2) {
    max = fmaxf(max, __shfl_xor_sync(kFullWarp, max, mask));
  }
  // While no key is seen, all weights are zero.
  const float from = max == MinusInfinity() ? 0.0f : max;
  const float factor = Exponential(state.max - from);
  float total = 0;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    for (int e = 0; e < 2; ++e) {
      scores[n][e] = Exponential(scores[n][e] - from);
      total += scores[n][e];
    }
  }
  state.total = state.total * factor + total;
  state.max = max;
  return factor;
}

// Weights of 16 keys as operands: their high halves, and their low halves where
// these are no columns of the same operand.
template <class S>
struct DecodeWeights {
  static constexpr int kOperands = S::kQueries == 4 ? 1 : 2;
  uint32_t b[kOperands][2];

  __device__ DecodeWeights(const float weights[2][2]) {
    const bool is_low = LaneIndex() / 4 >= S::kQueries;
    for (int n = 0; n < 2; ++n) {
      const SplitPair pair = Split<S::kIsBf16>(weights[n][0], weights[n][1]);
      if constexpr (kOperands == 1) {
        b[0][n] = is_low ? pair.low : pair.high;
      } else {
        b[0][n] = pair.high;
        b[1][n] = pair.low;
      }
    }
  }

  __device__ void Multiply(const uint32_t* a, float* sums) const {
#pragma unroll
    for (int i = 0; i < kOperands; ++i) MmaFloat<S::kIsBf16>(a, b[i], sums);
  }
};

// sums += weights times values. Entry 4 m + 2 i + e of sums is of query
// (2 t + e) % kQueries and of the element ValueElement(m, i).
template <class S>
__device__ void AddValues(const std::byte* values, const float weights[2][2],
                          float* sums) {
  const int lane = LaneIndex();
  const std::byte* rows[4];  // keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9
  for (int r = 0; r < 4; ++r) {
    rows[r] = values + (lane % 4 * 2 + r / 2 * 8 + r % 2) * S::kRow;
  }
  if constexpr (S::kIsQuantized) {
#pragma unroll
    for (int block = 0; block < S::kHead / 32; ++block) {
      uint32_t words[4];
      float scaled[2][2];
      for (int r = 0; r < 4; ++r) {
        words[r] = LevelWord<true>(rows[r], block, lane / 4);
        scaled[r / 2][r % 2] =
            weights[r / 2][r % 2] * (ScaleOf(rows[r], block) * kWeightScale);
      }
      const DecodeWeights<S> operands(scaled);
      uint32_t a[2][4];
      for (int r = 0; r < 2; ++r) {
        const uint32_t low = words[2 * r];
        const uint32_t high = words[2 * r + 1];
        const uint32_t first = PickBytes(low, high, 0x5140);
        const uint32_t second = PickBytes(low, high, 0x7362);
        a[0][2 * r] = PairOfBytes<true, 0, 1>(first);
        a[0][2 * r + 1] = PairOfBytes<true, 2, 3>(first);
        a[1][2 * r] = PairOfBytes<true, 0, 1>(second);
        a[1][2 * r + 1] = PairOfBytes<true, 2, 3>(second);
      }
      for (int m = 0; m < 2; ++m) {
        operands.Multiply(a[m], sums + (block * 2 + m) * 4);
      }
    }
  } else {
    const DecodeWeights<S> operands(weights);
#pragma unroll
    for (int d = 0; d < S::kHead / 64; ++d) {
      uint32_t words[4][4];
      for (int r = 0; r < 4; ++r) {
        const uint4 eight =
            *reinterpret_cast<const uint4*>(rows[r] + d * 128 + lane / 4 * 16);
        words[r][0] = eight.x;
        words[r][1] = eight.y;
        words[r][2] = eight.z;
        words[r][3] = eight.w;
      }
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const uint32_t a[4] = {LowHalves(words[0][m], words[1][m]),
                               HighHalves(words[0][m], words[1][m]),
                               LowHalves(words[2][m], words[3][m]),
                               HighHalves(words[2][m], words[3][m])};
        operands.Multiply(a, sums + (d * 4 + m) * 4);
      }
    }
  }
}

// The element of the head in row lane / 4 + 8 i of product m of values.
template <class S>
__device__ int ValueElement(int m, int i) {
  const int g = LaneIndex() / 4;
  if constexpr (S::kIsQuantized) {
    const int shift = m / 2 % 2 == 0 ? 2 : 0;
    return m / 2 * 32 + (g * 4 + m % 2 * 2 + i + shift) % 32;
  } else {
    return m / 4 * 64 + g * 8 + m % 4 * 2 + i;
  }
}

// Computes the warp's part of a span's steps whose pages are `pages`. In the
// first such pass the thread waits for the kernels before; what it does until
// then needs nothing but what the host has given.
//
// The first round of the loop only starts copies, so that there is one text of
// all that finds and copies steps. Most rows have few steps, and then the time
// goes to instructions that are fetched for the first time.
template <class S>
__device__ void AttendSteps(const AttentionShape& shape, const Task& task,
                            Walk<S> walk, Pages pages, bool is_first,
                            bool prefetches, std::byte* shared, Softmax& state,
                            float* sums) {
  Step* steps = reinterpret_cast<BlockState*>(shared)->steps[WarpIndex()];
  auto* queries = reinterpret_cast<uint4*>(shared + kBlockBytes);
  std::byte* keys =
      shared + kBlockBytes + S::kQueryBytes + WarpIndex() * S::kWarpBytes;
  std::byte* values = keys + kKeys * S::kRow;
  const int lane = LaneIndex();
  const int row = task.Row(lane / 4 % S::kQueries);
  bool has_step = false;
#pragma unroll 1
  for (int i = 0; !has_step || HasLive(steps[i]); i ^= 1) {
    const Step& next = steps[i ^ 1];
    walk.Next(shape, task, pages, steps + (i ^ 1));
    float scores[2][2];
    if (has_step) {
      WaitForCopies<1>();
      __syncwarp();
      ScoreKeys<S>(keys, queries, scores);
      __syncwarp();
    } else if (is_first) {
      if (prefetches) PrefetchStep<S>(shape, task, next);
      WaitForKernelsBefore();
    } else {
      // All warps have used the queries of the other pages.
      __syncthreads();
    }
    CopyKeys<S>(shape, task, next, keys);
    if (has_step) {
      const float factor =
          WeighKeys<S>(shape, task, steps[i], row, state, scores);
      const float factors[2] = {
          __shfl_sync(kFullWarp, factor, lane % 4 * 8),
          __shfl_sync(kFullWarp, factor, lane % 4 * 8 + 4)};
      if (factors[0] != 1.0f || factors[1] != 1.0f) {
#pragma unroll
        for (int s = 0; s < S::kSums; ++s) sums[s] *= factors[s % 2];
      }
      WaitForCopies<1>();
      __syncwarp();
      AddValues<S>(values, scores, sums);
      __syncwarp();
    } else {
      StageDecodeQueries<S>(shape, task, pages == Pages::kPrefix, queries);
      __syncthreads();
    }
    CopyValues<S>(shape, task, next, values);
    has_step = true;
  }
  WaitForCopies<0>();
  __syncwarp();
}

// Finds whether a span has no pages of the prefix, and no others. All threads
// of the block get the same.
template <class S>
__device__ void FindPages(const AttentionTile& tile, PageSteps pages,
                          int64_t begin, int64_t end, bool* is_skipped) {
  const int64_t past = end * pages.unit_pages;
  int n_prefix = 0;
  int n_recent = 0;
  for (int64_t page = begin * pages.unit_pages + LaneIndex();
       page < (past < tile.n_pages ? past : tile.n_pages);
       page += kWarpThreads) {
    if (tile.pages[page].is_prefix) {
      ++n_prefix;
    } else {
      ++n_recent;
    }
  }
  is_skipped[0] = WarpSum(n_prefix) == 0;
  is_skipped[1] = WarpSum(n_recent) == 0;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_STEPS_CUH_
