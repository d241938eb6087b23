// Attention of prompts with heads wider than 256 elements. A warp has 16
// queries that read one KV head. It goes over their keys in tiles of 64: a
// page, or 64 aligned positions.
//
// Queries and weights are split into two 16-bit floats. Keys and values of 16
// bits are used as they are; those of Q8_0 are split too. So scores and sums
// lose about 2^-21 of their terms (BF16: 2^-16), which is little beside
// float32's own rounding over a head. A row's result does not depend on the
// rows beside it, nor on where a chunk ends: a tile of which it sees nothing
// changes nothing.
//
// Operands are loaded from memory in its order, 16 bytes a lane. The kernel may
// choose which element of a head an operand's column stands for, as long as
// both sides agree. Lane t has elements [8 t, 8 t + 8) of each 32 in the
// columns of two products. Product j has elements 8 g + j of each 64 of values
// in column g.
#include "kernels/cuda/attention/attention_prompt.cuh"
#include "kernels/cuda/mat_mul/matrix.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kKeys = static_cast<int>(kPromptKeys);
constexpr int kGroups = kKeys / 8;  // groups of keys: columns of a product

// The constants of a kernel. The dimensions of heads of keys and of values are
// rounded up to one of the shapes. With wide heads, kTeam warps share the
// queries, and each has kDims of the values' elements.
template <int kHeadDimOfShape, int kValueDimOfShape = kHeadDimOfShape>
struct WideShape {
  static constexpr int kStepKeys = kKeys;
  static constexpr int64_t kKeysOfUnit = kUnitKeys;
  static constexpr int kSteps = static_cast<int>(kPromptUnitSteps);
  static constexpr int kHead = kHeadDimOfShape;
  static constexpr int kTeam =
      kValueDimOfShape <= 256 ? 1 : kValueDimOfShape / 256;
  static constexpr int kDims = kValueDimOfShape / kTeam;
  // Warps of a block. They read the same keys and values from its cache, as
  // their queries are neighbours.
  static constexpr int kWarps = kTeam == 1 ? 4 : 2;
  static constexpr int kTeams = kWarps / kTeam;
  static constexpr int kSums = kDims / 2;  // a lane's: 16 queries, 32 lanes
  // Queries as operands: both halves of the split of both rows of a lane.
  static constexpr int64_t kQueryBytes = int64_t{kHead} / 32 * 4 * 512;
  static constexpr int64_t kRowBytes = int64_t{kKeys} * 2 * 8;
  static constexpr int64_t kSharedBytes =
      kTeams * kQueryBytes + kWarps * kRowBytes;
  static_assert(kSharedBytes <= kMaxSharedBytes);
  static_assert(kTeam == 1 || kTeams == 1);
};

template <class S>
__device__ void SyncTeam() {
  if constexpr (S::kTeam == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// Eight elements of one lane, two to a word: their high parts, and their low
// parts if the type is split.
template <bool kIsSplit>
struct Eight {
  uint32_t high[4];
  uint32_t low[kIsSplit ? 4 : 1];
};

// Loads elements [at, at + 8) of a row of keys or values.
template <DType kType>
__device__ Eight<kType == DType::kQ8_0> LoadOperand(const std::byte* row,
                                                    int64_t at) {
  Eight<kType == DType::kQ8_0> eight = {};
  const StoredEight<kType> stored = LoadStored<kType>(row, at);
  if constexpr (kType == DType::kQ8_0) {
    const uint32_t d = LowHalves(stored.d, stored.d);
    for (int i = 0; i < 4; ++i) {
      const uint32_t quants = PairOfBytes<true, 0, 1>(stored.pairs[i]);
      eight.high[i] = MultiplyPairs(quants, d);
      eight.low[i] = FmaPairs(quants, d, Negated(eight.high[i]));
    }
  } else {
    eight.high[0] = stored.words[0].x;
    eight.high[1] = stored.words[0].y;
    eight.high[2] = stored.words[0].z;
    eight.high[3] = stored.words[0].w;
  }
  return eight;
}

// Returns `at`, or the head's first element if `at` is beyond the head's `dim`
// elements. What is read there meets zeros of queries, or is not written.
__device__ inline int InHead(int64_t dim, int at) { return at < dim ? at : 0; }

// Stores the queries of a team as operands in shared memory, 16 bytes a lane:
// for each 32 elements the high halves of two products, then the low halves.
template <class S, bool kIsBf16>
__device__ void StageQueries(const AttentionShape& shape, const Task& task,
                             bool is_prefix, uint4* queries) {
  const float* from = is_prefix ? shape.q_prefix : shape.q;
  const int lane = LaneIndex();
  SyncTeam<S>();
  for (int j = WarpIndex() % S::kTeam; j < S::kHead / 32; j += S::kTeam) {
    const int64_t at = j * 32 + lane % 4 * 8;
    SplitPair pairs[2][4];  // pairs of rows g and g + 8
    for (int half = 0; half < 2; ++half) {
      const int query = lane / 4 + half * 8;
      float x[8] = {};
      if (task.Has(query) && at < shape.head_dim) {
        const float* row =
            from + task.Index(query, shape.n_heads) * shape.head_dim + at;
        for (int i = 0; i < 8; ++i) x[i] = row[i];
      }
      for (int i = 0; i < 4; ++i) {
        pairs[half][i] = Split<kIsBf16>(x[2 * i], x[2 * i + 1]);
      }
    }
    for (int s = 0; s < 2; ++s) {
      const SplitPair* const upper = pairs[0] + 2 * s;
      const SplitPair* const lower = pairs[1] + 2 * s;
      queries[(j * 4 + s) * kWarpThreads + lane] = {
          upper[0].high, lower[0].high, upper[1].high, lower[1].high};
      queries[(j * 4 + 2 + s) * kWarpThreads + lane] = {
          upper[0].low, lower[0].low, upper[1].low, lower[1].low};
    }
  }
  SyncTeam<S>();
}

// Finds the rows of a tile's keys and values. The step has live keys. A key
// that is not live may have no row. The nearest live key is read instead; its
// score is not used, and its weight is zero.
__device__ inline void FindRows(const AttentionShape& shape, const Step& step,
                                const std::byte** rows) {
  for (int i = LaneIndex(); i < kKeys; i += kWarpThreads) {
    const int key = NearestLive(step, i);
    rows[i] = KeyRow(shape, step, key);
    rows[kKeys + i] = ValueRow(shape, step, key);
  }
}

// Scores of 16 queries and a tile of keys: entry n has the scores of keys 8 n +
// 2 t and the next one, for query g and then for query g + 8.
template <class S, DType kType>
__device__ void ScoreTile(const AttentionShape& shape, const Task& task,
                          const std::byte* const* rows, const uint4* queries,
                          float scores[kGroups][4]) {
  constexpr bool kIsBf16 = kType == DType::kBF16;
  const int lane = LaneIndex();
  const int64_t first = task.kv_head * shape.head_dim;
  const std::byte* keys[kGroups];
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
    keys[n] = rows[n * 8 + lane / 4];
    for (int e = 0; e < 4; ++e) scores[n][e] = 0;
  }
  for (int j = 0; j < S::kHead / 32; ++j) {
    uint32_t a[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 q = queries[(j * 4 + i) * kWarpThreads + lane];
      a[i][0] = q.x;
      a[i][1] = q.y;
      a[i][2] = q.z;
      a[i][3] = q.w;
    }
    const int64_t at = first + InHead(shape.head_dim, j * 32 + lane % 4 * 8);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const auto k = LoadOperand<kType>(keys[n], at);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        MmaFloat<kIsBf16>(a[s], k.high + 2 * s, scores[n]);
        MmaFloat<kIsBf16>(a[2 + s], k.high + 2 * s, scores[n]);
        if constexpr (kType == DType::kQ8_0) {
          MmaFloat<kIsBf16>(a[s], k.low + 2 * s, scores[n]);
        }
      }
    }
  }
}

// Scales and caps scores if the launch has a cap. Returns the factor by which
// they are still to be multiplied.
__device__ inline float CapTile(const AttentionShape& shape,
                                float scores[kGroups][4]) {
  if (shape.soft_cap == 0.0f) return shape.scale;
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
    for (int e = 0; e < 4; ++e) {
      scores[n][e] = Capped(shape, scores[n][e] * shape.scale);
    }
  }
  return 1.0f;
}

// The softmax of queries g and g + 8: the running maximum, and this lane's part
// of the sum of weights.
struct PromptSoftmax {
  float max[2];
  float total[2];
};

// What earlier sums are multiplied by, for queries g and g + 8.
struct SumFactors {
  float of[2];
};

// Turns scores into weights. Returns the factors for earlier sums. A score that
// is not a number makes the total not a number.
template <class S>
__device__ SumFactors WeighTile(const AttentionShape& shape, const Task& task,
                                const Step& step, PromptSoftmax& state,
                                float scores[kGroups][4]) {
  SumFactors factors;
  const float scale = CapTile(shape, scores);
  const int lane = LaneIndex();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = task.Row(lane / 4 + half * 8);
    const int64_t past = task.tile.first_position + row + 1 - step.position;
    const int64_t first =
        shape.is_ring ? FirstOfRing(task, row) - step.position : 0;
    // Keys [begin, begin + n_seen) of the step are seen.
    const int begin = first < step.begin ? step.begin : StepKey<S>(first);
    const int end = past < step.end ? StepKey<S>(past) : step.end;
    const auto n_seen = static_cast<unsigned>(end > begin ? end - begin : 0);
    float max = state.max[half];
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      for (int e = 0; e < 2; ++e) {
        const auto key =
            static_cast<unsigned>(n * 8 + lane % 4 * 2 + e - begin);
        float& score = scores[n][half * 2 + e];
        score = key < n_seen ? score * scale : MinusInfinity();
        max = fmaxf(max, score);
      }
    }
    for (int mask = 1; mask < 4; mask *= 2) {
      max = fmaxf(max, __shfl_xor_sync(kFullWarp, max, mask));
    }
    // While no key is seen, all weights are zero.
    const float from = max == MinusInfinity() ? 0.0f : max;
    factors.of[half] = Exponential(state.max[half] - from);
    float total = 0;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n][half * 2 + e];
        score = Exponential(score - from);
        total += score;
      }
    }
    state.total[half] = state.total[half] * factors.of[half] + total;
    state.max[half] = max;
  }
  return factors;
}

// Weights of a tile as operands: one product for each 16 keys.
struct WeightOperands {
  uint32_t high[kKeys / 16][4];
  uint32_t low[kKeys / 16][4];
};

template <bool kIsBf16>
__device__ WeightOperands SplitWeights(const float weights[kGroups][4]) {
  WeightOperands operands;
#pragma unroll
  for (int i = 0; i < kKeys / 16; ++i) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float* pair = weights[2 * i + r / 2] + r % 2 * 2;
      const SplitPair split = Split<kIsBf16>(pair[0], pair[1]);
      operands.high[i][r] = split.high;
      operands.low[i][r] = split.low;
    }
  }
  return operands;
}

// The operand of product j of 64 elements, from the words of four keys.
template <class Words>
__device__ void ValueOperand(int j, const Words& words, uint32_t* b) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const uint32_t one = words(2 * r)[j / 2];
    const uint32_t other = words(2 * r + 1)[j / 2];
    b[r] = j % 2 == 0 ? LowHalves(one, other) : HighHalves(one, other);
  }
}

// sums += weights times values, for this warp's elements of the head.
template <class S, DType kType>
__device__ void AddTile(const AttentionShape& shape, const Task& task,
                        const std::byte* const* rows,
                        const WeightOperands& weights, float* sums) {
  constexpr bool kIsBf16 = kType == DType::kBF16;
  constexpr bool kIsSplit = kType == DType::kQ8_0;
  const int lane = LaneIndex();
  const int64_t first = task.kv_head * shape.head_dim;
  const int begin = WarpIndex() % S::kTeam * S::kDims + lane / 4 * 8;
#pragma unroll
  for (int d = 0; d < S::kDims / 64; ++d) {
    const int64_t at = first + InHead(shape.value_dim, begin + d * 64);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
      const std::byte* const* four = rows + i * 16 + lane % 4 * 2;
      Eight<kIsSplit> v[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        v[r] = LoadOperand<kType>(four[r / 2 * 8 + r % 2], at);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float* sum = sums + (d * 8 + j) * 4;
        uint32_t b[2];
        ValueOperand(
            j, [&](int r) { return v[r].high; }, b);
        MmaFloat<kIsBf16>(weights.high[i], b, sum);
        MmaFloat<kIsBf16>(weights.low[i], b, sum);
        if constexpr (kIsSplit) {
          ValueOperand(
              j, [&](int r) { return v[r].low; }, b);
          MmaFloat<kIsBf16>(weights.high[i], b, sum);
        }
      }
    }
  }
}

// Writes this warp's elements. A lane has elements [16 t, 16 t + 16) of each 64
// in two rows.
template <class S>
__device__ void WriteRows(const AttentionShape& shape, const Task& task,
                          const PromptSoftmax& state, const float* sums) {
  const int lane = LaneIndex();
  const int begin = WarpIndex() % S::kTeam * S::kDims;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = state.total[half];
    for (int mask = 1; mask < 4; mask *= 2) {
      total += __shfl_xor_sync(kFullWarp, total, mask);
    }
    const int query = lane / 4 + half * 8;
    if (!task.Has(query)) continue;
    total = TotalWithSink(shape, task.Head(query), {state.max[half], total});
    float* out = shape.out + task.Index(query, shape.n_heads) * shape.value_dim;
#pragma unroll
    for (int d = 0; d < S::kDims / 64; ++d) {
      for (int e = 0; e < 2; ++e) {
        const int at = begin + d * 64 + lane % 4 * 16 + e * 8;
        if (at >= shape.value_dim) continue;
        for (int j = 0; j < 8; ++j) {
          const float sum = sums[(d * 8 + j) * 4 + half * 2 + e];
          out[at + j] = total == 0.0f ? 0.0f : sum / total;
        }
      }
    }
  }
}

// Team i of the grid has task i: tiles, then tiles of a head group, then KV
// heads. The last tiles, which see most, come first.
template <class S, DType kKeyType, DType kValueType>
__global__ void __launch_bounds__(S::kWarps* kWarpThreads)
    AttendWide(AttentionShape shape, const AttentionTile* tiles,
               int64_t n_tiles) {
  WaitForKernelsBefore();
  const int team = WarpIndex() / S::kTeam;
  const int64_t index = int64_t{blockIdx.x} * S::kTeams + team;
  if (index >= n_tiles * shape.n_head_tiles * shape.n_kv_heads) return;
  auto* queries =
      reinterpret_cast<uint4*>(DynamicShared() + team * S::kQueryBytes);
  auto* rows = reinterpret_cast<const std::byte**>(DynamicShared() +
                                                   S::kTeams * S::kQueryBytes +
                                                   WarpIndex() * S::kRowBytes);
  const auto group = static_cast<int>(shape.n_heads / shape.n_kv_heads);
  const auto head_tile = static_cast<int>(index / n_tiles % shape.n_head_tiles);
  const auto kv_head = static_cast<int>(index / n_tiles / shape.n_head_tiles);
  const AttentionTile& tile = tiles[n_tiles - 1 - index % n_tiles];
  const Task task = TaskOf(shape, tile, group, kv_head, head_tile);
  PromptSoftmax state = {{MinusInfinity(), MinusInfinity()}, {0, 0}};
  float sums[S::kSums] = {};
  bool is_staged = false;
  bool is_prefix = false;
  for (int64_t u = tile.first_unit; u < tile.end_unit; ++u) {
    const Unit<S> unit(shape, task, u);
    for (int i = 0; i < unit.n_steps; ++i) {
      const Step step = unit.At(shape, task, i);
      if (!HasLive(step)) continue;
      if (!is_staged || step.is_prefix != is_prefix) {
        is_staged = true;
        is_prefix = step.is_prefix;
        StageQueries<S, kKeyType == DType::kBF16>(shape, task, is_prefix,
                                                  queries);
      }
      __syncwarp();
      FindRows(shape, step, rows);
      __syncwarp();
      float scores[kGroups][4];
      ScoreTile<S, kKeyType>(shape, task, rows, queries, scores);
      const SumFactors factors = WeighTile<S>(shape, task, step, state, scores);
      if (factors.of[0] != 1.0f || factors.of[1] != 1.0f) {
#pragma unroll
        for (int s = 0; s < S::kSums; ++s) sums[s] *= factors.of[s % 4 / 2];
      }
      AddTile<S, kValueType>(shape, task, rows + kKeys,
                             SplitWeights<kValueType == DType::kBF16>(scores),
                             sums);
    }
  }
  WriteRows<S>(shape, task, state, sums);
}

template <class S, DType kKeyType, DType kValueType>
void LaunchWide(const Context& context, const AttentionShape& shape,
                std::span<const AttentionTile> host,
                const AttentionTile* device) {
  const auto n_tiles = static_cast<int64_t>(host.size());
  const int64_t n_teams = n_tiles * shape.n_head_tiles * shape.n_kv_heads;
  Launch(AttendWide<S, kKeyType, kValueType>,
         {(n_teams + S::kTeams - 1) / S::kTeams}, S::kWarps * kWarpThreads,
         S::kSharedBytes, context.queue, shape, device, n_tiles);
}

// Calls `function` with the type, for which HasPromptType is true.
template <class Function>
void WithPromptType(DType dtype, const Function& function) {
  if (dtype == DType::kF16) return function(TypeConstant<DType::kF16>{});
  if (dtype == DType::kBF16) return function(TypeConstant<DType::kBF16>{});
  function(TypeConstant<DType::kQ8_0>{});
}

}  // namespace

void AttendWidePrompts(const Context& context, const AttentionShape& shape,
                       std::span<const AttentionTile> host,
                       const AttentionTile* device) {
  WithPromptType(shape.k_type, [&](auto key) {
    WithPromptType(shape.v_type, [&](auto value) {
      constexpr DType kKey = decltype(key)::value;
      constexpr DType kValue = decltype(value)::value;
      const auto launch = [&](auto tag) {
        LaunchWide<decltype(tag), kKey, kValue>(context, shape, host, device);
      };
      if (shape.head_dim <= 512) return launch(WideShape<512>{});
      launch(WideShape<576, 512>{});
    });
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
