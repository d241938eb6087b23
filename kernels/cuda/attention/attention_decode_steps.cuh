// A warp's work on 16 keys in attention of generated tokens
// (attention_decode.cu): products and weights.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_STEPS_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_STEPS_CUH_

#include "kernels/cuda/attention/attention_decode_copies.cuh"
#include "kernels/cuda/mat_mul/matrix.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// A lane's part of the block's queries, on its way from memory to operands.
template <class S>
struct StagedQueries {
  static constexpr int kPerWarp = S::kHead / 16 / kWarps;
  float2 x[kPerWarp][2];

  __device__ void Load(const AttentionShape& shape, const Task& task,
                       bool is_prefix) {
    const float* from = is_prefix ? shape.q_prefix : shape.q;
    const int lane = LaneIndex();
    const int query = lane / 4 % S::kQueries;
    const bool has = task.Has(query);
    if (has) from += task.Index(query, shape.n_heads) * S::kHead;
#pragma unroll
    for (int i = 0; i < kPerWarp; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[i][half] = {0, 0};
        if (!has) continue;
        // Elements 2 half and 2 half + 1 are adjacent.
        x[i][half] = *reinterpret_cast<const float2*>(
            from + S::Element(i * kWarps + WarpIndex(), lane % 4, 2 * half));
      }
    }
  }

  // Stores operands, 16 bytes per lane for each product.
  __device__ void Store(uint4* queries) const {
#pragma unroll
    for (int i = 0; i < kPerWarp; ++i) {
      const SplitPair first = Split<S::kIsBf16>(x[i][0].x, x[i][0].y);
      const SplitPair second = Split<S::kIsBf16>(x[i][1].x, x[i][1].y);
      queries[(i * kWarps + WarpIndex()) * kWarpThreads + LaneIndex()] = {
          first.high, first.low, second.high, second.low};
    }
  }
};

__device__ inline uint32_t SharedWord(const std::byte* at) {
  return *reinterpret_cast<const uint32_t*>(at);
}

// Four levels of block `block` of a row of Q8_0. Blocks have 34 bytes, so the
// levels of odd blocks are aligned to words. In an even block, word i has the
// elements from 4 i + 2 on; the last word has the block's last two elements and
// then its first two.
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

// Stores the scales of 16 rows of Q8_0 for ScalesOf.
template <class S>
__device__ void GatherScales(const std::byte* rows, uint32_t* scales) {
  const int block = LaneIndex() / 4;
  static_assert(S::kBlocksOfHead <= kWarpThreads / 4);
  if (block < S::kBlocksOfHead) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pair = LaneIndex() % 4 + 4 * i;
      const std::byte* from =
          rows + 2 * pair * S::kRow + block * static_cast<int>(kQ80Bytes);
      const uint32_t first = *reinterpret_cast<const uint16_t*>(from);
      const uint32_t second =
          *reinterpret_cast<const uint16_t*>(from + S::kRow);
      scales[pair * S::kBlocksOfHead + block] = first | (second << 16);
    }
  }
  __syncwarp();
}

// The scales of keys 2 t and 2 t + 1 (i is 0), or of keys 2 t + 8 and 2 t + 9
// (i is 1), in block `block`, with t = lane % 4.
template <class S>
__device__ uint32_t ScalesOf(const uint32_t* scales, int i, int block) {
  const auto two = *reinterpret_cast<const uint2*>(
      scales + (LaneIndex() % 4 + 4 * i) * S::kBlocksOfHead + block / 2 * 2);
  return block % 2 == 0 ? two.x : two.y;
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
// [n][e] belongs to query g and key 8 n + 2 t + e.
template <class S>
__device__ void ScoreKeys(const std::byte* keys, const uint4* queries,
                          uint32_t* scales, float scores[2][2]) {
  if constexpr (S::kIsQuantized) GatherScales<S>(keys, scales);
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
          ScoreProduct(/*is_bf16=*/false, q[s],
                       PairOfBytes<true, 0, 1>(words[s]),
                       PairOfBytes<true, 2, 3>(words[s]), sums[n]);
        }
        const uint32_t two = ScalesOf<S>(scales, n, pair);
        for (int e = 0; e < 2; ++e) {
          const float d = FloatOfHalf(e == 0 ? LowHalf(two) : HighHalf(two));
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

// A row of a task's tile.
struct TaskRow {
  const Task& task;
  int row;
};

// Turns scores into weights of the lane's query, which belongs to `row`.
// Returns the factor for earlier sums.
// `state.total` is this lane's part. A NaN score makes the total NaN.
template <class S>
__device__ float WeighKeys(const AttentionShape& shape, const TaskRow& row,
                           const Step& step, Softmax& state,
                           float scores[2][2]) {
  const int lane = LaneIndex();
  const int64_t past =
      row.task.tile.first_position + row.row + 1 - step.position;
  const int64_t first =
      shape.is_ring ? FirstOfRing(row.task, row.row) - step.position : 0;
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

// Weights of 16 keys as operands: their high halves, and their low halves if
// these are not columns of the same operand.
template <class S>
struct DecodeWeights {
  static constexpr int kOperands = S::kQueries == 4 ? 1 : 2;
  uint32_t b[kOperands][2];

  __device__ void Set(int n, const SplitPair& pair) {
    if constexpr (kOperands == 1) {
      const bool is_low = LaneIndex() / 4 >= S::kQueries;
      b[0][n] = is_low ? pair.low : pair.high;
    } else {
      b[0][n] = pair.high;
      b[1][n] = pair.low;
    }
  }

  __device__ void Multiply(const uint32_t* a, float* sums) const {
#pragma unroll
    for (int i = 0; i < kOperands; ++i) MmaFloat<S::kIsBf16>(a, b[i], sums);
  }
};

// A pair times scales. The high half of the result is rounded, and the low half
// has the rounding error.
__device__ inline SplitPair Scaled(const SplitPair& pair, uint32_t scales) {
  SplitPair scaled;
  scaled.high = MultiplyPairs(pair.high, scales);
  const uint32_t lost = FmaPairs(pair.high, scales, Negated(scaled.high));
  scaled.low = FmaPairs(pair.low, scales, lost);
  return scaled;
}

// The rows of a lane's keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.
struct ValueRows {
  const std::byte* at[4];
};

// sums += weights times values of Q8_0.
template <class S>
__device__ __forceinline__ void AddLevels(const ValueRows& rows,
                                          const SplitPair* weights,
                                          const uint32_t* scales, float* sums) {
  DecodeWeights<S> operands;
#pragma unroll
  for (int block = 0; block < S::kBlocksOfHead; ++block) {
    uint32_t words[4];
    for (int r = 0; r < 4; ++r) {
      words[r] = LevelWord<true>(rows.at[r], block, LaneIndex() / 4);
    }
    for (int n = 0; n < 2; ++n) {
      operands.Set(n, Scaled(weights[n], ScalesOf<S>(scales, n, block)));
    }
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
}

// sums += weights times values of 16 bits.
template <class S>
__device__ __forceinline__ void AddFloats(const ValueRows& rows,
                                          const SplitPair* weights,
                                          float* sums) {
  DecodeWeights<S> operands;
  for (int n = 0; n < 2; ++n) operands.Set(n, weights[n]);
#pragma unroll
  for (int d = 0; d < S::kHead / 64; ++d) {
    uint32_t words[4][4];
    for (int r = 0; r < 4; ++r) {
      const uint4 eight = *reinterpret_cast<const uint4*>(rows.at[r] + d * 128 +
                                                          LaneIndex() / 4 * 16);
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

// sums += weights times values. Entry 4 m + 2 i + e of sums belongs to query (2
// t + e) % kQueries and to the element ValueElement(m, i).
template <class S>
__device__ void AddValues(const std::byte* values, const float weights[2][2],
                          uint32_t* scales, float* sums) {
  constexpr float kFactor = S::kIsQuantized ? kWeightScale : 1.0f;
  SplitPair halves[2];
  for (int n = 0; n < 2; ++n) {
    halves[n] =
        Split<S::kIsBf16>(weights[n][0] * kFactor, weights[n][1] * kFactor);
  }
  ValueRows rows;
  for (int r = 0; r < 4; ++r) {
    rows.at[r] = values + (LaneIndex() % 4 * 2 + r / 2 * 8 + r % 2) * S::kRow;
  }
  if constexpr (S::kIsQuantized) {
    GatherScales<S>(values, scales);
    AddLevels<S>(rows, halves, scales, sums);
  } else {
    AddFloats<S>(rows, halves, sums);
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

// Rescales earlier sums to a step's new maxima; `factor` belongs to the lane's
// query.
template <class S>
__device__ __forceinline__ void RescaleSums(float factor, float* sums) {
  const int first = LaneIndex() % 4 * 8;
  const float factors[2] = {__shfl_sync(kFullWarp, factor, first),
                            __shfl_sync(kFullWarp, factor, first + 4)};
  if (factors[0] != 1.0f || factors[1] != 1.0f) {
#pragma unroll
    for (int s = 0; s < S::kSums; ++s) sums[s] *= factors[s % 2];
  }
}

// The places of a warp's steps, keys and values, and of the block's queries, in
// the block's shared memory.
template <class S>
struct WarpPlaces {
  Step* steps;
  uint4* queries;
  std::byte* keys;
  std::byte* values;
  uint32_t* scales;

  __device__ __forceinline__ explicit WarpPlaces(std::byte* shared)
      : steps(reinterpret_cast<BlockState*>(shared)->steps[WarpIndex()]),
        queries(reinterpret_cast<uint4*>(shared + kBlockBytes)),
        keys(shared + kBlockBytes + S::kQueryBytes +
             WarpIndex() * S::kWarpBytes),
        values(keys + kKeys * S::kRow),
        scales(reinterpret_cast<uint32_t*>(values + kKeys * S::kRow)) {}
};

// A pass over the steps of a span whose pages are `pages`.
struct SpanPass {
  Pages pages;
  bool is_first;
  bool prefetches;
};

// The running results of a warp's queries. It refers to its numbers: an array
// that lies in an object with other numbers may not stay in registers.
struct RunningSums {
  Softmax& state;
  float* sums;
};

// Computes the warp's part of a pass. In the first pass the thread waits for
// the kernels before. Until then it uses only data from the host.
//
// The first round of the loop only starts loads and copies, so that the code
// that finds and copies steps exists only once. Most rows have few steps, and
// then most of the time is spent on fetching instructions for the first time.
template <class S>
__device__ void AttendSteps(const AttentionShape& shape, const Task& task,
                            Walk<S> walk, const SpanPass& pass,
                            const RunningSums& running) {
  const WarpPlaces<S> places(DynamicShared());
  Step* const steps = places.steps;
  float* const sums = running.sums;
  const TaskRow row = {task, task.Row(LaneIndex() / 4 % S::kQueries)};
  bool has_step = false;
#pragma unroll 1
  for (int i = 0; !has_step || HasLive(steps[i]); i ^= 1) {
    const Step& next = steps[i ^ 1];
    walk.Next(shape, task, pass.pages, steps + (i ^ 1));
    float scores[2][2];
    StagedQueries<S> staged;
    if (has_step) {
      WaitForCopies<1>();
      __syncwarp();
      ScoreKeys<S>(places.keys, places.queries, places.scales, scores);
      __syncwarp();
    } else {
      if (pass.is_first) {
        if (pass.prefetches) PrefetchStep<S>(shape, task, next);
        WaitForKernelsBefore();
      }
      if constexpr (!S::kIsQuantized) {
        staged.Load(shape, task, pass.pages == Pages::kPrefix);
      }
    }
    CopyKeys<S>(shape, task, next, places.keys);
    if (has_step) {
      const float factor =
          WeighKeys<S>(shape, row, steps[i], running.state, scores);
      RescaleSums<S>(factor, sums);
      WaitForCopies<1>();
      __syncwarp();
      AddValues<S>(places.values, scores, places.scales, sums);
      __syncwarp();
    }
    CopyValues<S>(shape, task, next, places.values);
    if (!has_step) {
      // All warps have used the queries of the other pages.
      if (!pass.is_first) __syncthreads();
      if constexpr (S::kIsQuantized) {
        // Loads before the copies would need too many registers.
        staged.Load(shape, task, pass.pages == Pages::kPrefix);
      }
      staged.Store(places.queries);
      __syncthreads();
    }
    has_step = true;
  }
  WaitForCopies<0>();
  __syncwarp();
}

// Sets is_skipped[0] if a span has no pages of the prefix, and is_skipped[1] if
// it has no other pages. All threads of the block get the same result.
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
