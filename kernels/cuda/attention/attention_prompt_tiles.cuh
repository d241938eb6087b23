// The work of a block of threads on a tile of keys in attention of prompts
// (attention_prompt.cu): it loads the tile, multiplies it and computes weights.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_TILES_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_TILES_CUH_

#include <algorithm>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention/attention_prompt.cuh"
#include "kernels/cuda/mat_mul/wgmma.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

constexpr int kKeys = static_cast<int>(kPromptKeys);
constexpr int kGroups = kKeys / 8;   // groups of keys: columns of a product
constexpr int kScores = kKeys / 2;   // a thread's scores: 16 queries, 32 lanes
constexpr int kWeights = kKeys / 4;  // a thread's weights, two per word
constexpr int kMaxSlices = 4;

// ---- Shapes ----------------------------------------------------------------

// A tile of keys, with the data that all threads need.
struct KeyTile {
  Step step;
  // The begin of key 0's row, if the rows follow one another in memory.
  const std::byte* k;
  const std::byte* v;
  bool is_there;  // false: there are no more tiles
  bool is_plain;  // k and v are valid, and all keys are live
  bool is_whole;  // all queries see all keys
};

// The constants of a kernel. The head's dimension is rounded up to one of the
// shapes. With two stages, a tile arrives while the tile before is in use.
template <int kHeadDimOfShape, bool kHasWgmma>
struct PromptShape {
  static constexpr int kStepKeys = kKeys;
  static constexpr int64_t kKeysOfUnit = kUnitKeys;
  static constexpr int kSteps = static_cast<int>(kPromptUnitSteps);
  static constexpr bool kUsesWgmma = kHasWgmma;
  static constexpr int kHead = kHeadDimOfShape;
  static constexpr int kQueries = kHasWgmma ? 128 : 64;
  static constexpr int kThreads = kQueries * 2;
  // Blocks that a multiprocessor holds.
  static constexpr int kBlocks = kHasWgmma ? 1 : 2;
  static constexpr int kStages = kHasWgmma || kHead <= 128 ? 2 : 1;
  static constexpr int kSums = kHead / 2;    // a thread's
  static constexpr int kChunks = kHead / 8;  // chunks of 16 bytes
  // Chunks of a tile of keys that one thread loads.
  static constexpr int kLoads = kKeys * kChunks / kThreads;
  static constexpr int kLoadStride = kThreads / kChunks;  // in keys
  // Tiles that are found at a time, and places for found tiles: three earlier
  // tiles may still be in use.
  static constexpr int kFinds = kHasWgmma ? 16 : 8;
  static constexpr int kFound = 2 * kFinds;
  static constexpr int kQueryBytes = kQueries * kHead * 2;
  static constexpr int kTileBytes = kKeys * kHead * 2;
  static constexpr int kKeysAt = kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * kTileBytes;
  static constexpr int kFoundAt = kValuesAt + kStages * kTileBytes;
  static constexpr int kPowersAt =
      kFoundAt + kFound * static_cast<int>(sizeof(KeyTile));
  static constexpr int kUnreadAt = kPowersAt + kQueries * 4;
  static constexpr int64_t kSharedBytes =
      kUnreadAt + (kHasWgmma ? kThreads * 4 : 0);
  static_assert(kSharedBytes <=
                (kHasWgmma ? kMostSharedBytes : kMaxSharedBytes));
  static_assert(kThreads % kChunks == 0);
};

// The task of a block.
struct BlockTask {
  Task task;
  int slice;
  int n_slices;
};

// The byte of an operand of `rows` rows at which a chunk of a row begins.
__device__ inline int OperandByte(int rows, int row, int chunk) {
  return chunk / 8 * (rows * kSwizzleRowBytes) + SwizzledByte(row, chunk % 8);
}

template <class S>
__device__ std::byte* KeysOf(int tile) {
  return DynamicShared() + S::kKeysAt + tile % S::kStages * S::kTileBytes;
}
template <class S>
__device__ std::byte* ValuesOf(int tile) {
  return DynamicShared() + S::kValuesAt + tile % S::kStages * S::kTileBytes;
}
template <class S>
__device__ KeyTile& FoundTile(int tile) {
  return reinterpret_cast<KeyTile*>(DynamicShared() +
                                    S::kFoundAt)[tile % S::kFound];
}

// ---- Tiles -----------------------------------------------------------------

// Finds the tiles of a block that have live keys, in order. One warp does it.
template <class S>
class Finder {
 public:
  __device__ Finder(const AttentionShape& shape, const BlockTask& block) {
    const AttentionTile& tile = block.task.tile;
    const Unit<S> unit(shape, block.task, tile.first_unit);
    const auto n_steps = static_cast<int64_t>(unit.n_steps);
    const int64_t first = tile.first_unit * n_steps;
    next_ = first + (block.slice + block.n_slices - first % block.n_slices) %
                        block.n_slices;
  }

  // Finds tiles until tile `index` has been found, or there are no more.
  __device__ void Find(const AttentionShape& shape, const BlockTask& block,
                       int index) {
    while (n_found_ <= index && !is_at_end_) {
      KeyTile found = {};
      if (LaneIndex() < S::kFinds) {
        Look(shape, block, next_ + LaneIndex() * block.n_slices, found);
      }
      const int is_there = found.is_there ? 1 : 0;
      int n_before = 0;
      int n = 0;
      for (int lane = 0; lane < S::kFinds; ++lane) {
        if (lane == LaneIndex()) n_before = n;
        n += __shfl_sync(kFullWarp, is_there, lane);
      }
      if (found.is_there) FoundTile<S>(n_found_ + n_before) = found;
      n_found_ += n;
      next_ += S::kFinds * block.n_slices;
      const Unit<S> unit(shape, block.task, 0);
      is_at_end_ = next_ >= block.task.tile.end_unit * unit.n_steps;
      if (is_at_end_ && LaneIndex() == 0) {
        FoundTile<S>(n_found_).is_there = false;
      }
    }
  }

 private:
  static __device__ void Look(const AttentionShape& shape,
                              const BlockTask& block, int64_t index,
                              KeyTile& found) {
    const Task& task = block.task;
    const auto n_steps = Unit<S>(shape, task, 0).n_steps;
    if (index >= task.tile.end_unit * n_steps) return;
    const Unit<S> unit(shape, task, index / n_steps);
    const Step step = unit.At(shape, task, static_cast<int>(index % n_steps));
    if (!HasLive(step)) return;
    found.is_there = true;
    found.step = step;
    const bool is_full = step.begin == 0 && step.end == kKeys;
    const bool is_in_ring =
        step.ring_end == kKeys && step.cell + kKeys <= step.window;
    found.is_plain = is_full && (step.ring_end == 0 || is_in_ring);
    const int64_t row = is_in_ring ? step.cell : step.row;
    found.k = (is_in_ring ? step.ring_k : step.k) + row * shape.k_row_bytes;
    found.v = (is_in_ring ? step.ring_v : step.v) + row * shape.v_row_bytes;
    found.is_whole = is_full &&
                     task.tile.first_position >= step.position + kKeys - 1 &&
                     (!shape.is_ring ||
                      FirstOfRing(task, task.tile.n_rows - 1) <= step.position);
  }

  int64_t next_;
  int n_found_ = 0;
  bool is_at_end_ = false;
};

// ---- Operands --------------------------------------------------------------

// Loads eight elements of keys or values as they are stored; `at` is a multiple
// of 8. Elements of Q8_0 are in x and y, and z is their block's scale.
__device__ inline uint4 LoadRaw(DType type, const std::byte* row, int at) {
  if (type != DType::kQ8_0) {
    return LoadWord(reinterpret_cast<const uint4*>(row + at * 2));
  }
  constexpr auto kBlock = static_cast<int>(kKvBlock);
  const std::byte* block = row + at / kBlock * (kBlock + 2);
  const std::byte* quants = block + 2 + at % kBlock;
  uint4 raw = {};
  raw.z = LoadWord(reinterpret_cast<const uint16_t*>(block));
  // Blocks begin at even bytes. Words are loaded from multiples of four.
  const bool is_odd = reinterpret_cast<uintptr_t>(quants) % 4 != 0;
  const auto* words =
      reinterpret_cast<const uint32_t*>(quants - (is_odd ? 2 : 0));
  raw.x = LoadWord(words);
  raw.y = LoadWord(words + 1);
  if (is_odd) {
    const uint32_t last =
        LoadWord(reinterpret_cast<const uint16_t*>(words + 2));
    raw.x = raw.x >> 16 | raw.y << 16;
    raw.y = raw.y >> 16 | last << 16;
  }
  return raw;
}

// Rounds raw elements to F16.
__device__ inline uint4 HalvesOf(DType type, const uint4& raw) {
  if (type == DType::kF16) return raw;
  if (type == DType::kBF16) {
    const auto convert = [](uint32_t pair) {
      return PackHalves(FloatOfBits(pair << 16),
                        FloatOfBits(pair & 0xFFFF0000u));
    };
    return {convert(raw.x), convert(raw.y), convert(raw.z), convert(raw.w)};
  }
  const uint32_t d = LowHalves(raw.z, raw.z);
  return {MultiplyPairs(PairOfBytes<true, 0, 1>(raw.x), d),
          MultiplyPairs(PairOfBytes<true, 2, 3>(raw.x), d),
          MultiplyPairs(PairOfBytes<true, 0, 1>(raw.y), d),
          MultiplyPairs(PairOfBytes<true, 2, 3>(raw.y), d)};
}

// A thread's chunks of a tile of keys or values on their way to shared memory.
// Elements beyond the head's end are copies of its first ones: they meet zeros
// of queries, or are not written.
//
// kType is F16, Q8_0, or BF16. BF16 means a type that is only known when the
// kernel runs.
template <class S, DType kType>
struct Bringer {
  static constexpr bool kIsCopied = kType == DType::kF16;
  // True if batches arrive during products. Chunks of other types would fill
  // the registers, so the thread waits for their batches.
  static constexpr bool kIsHeld = kType == DType::kQ8_0 && S::kUsesWgmma;
  static constexpr int kBatch =
      kIsCopied ? S::kLoads : (S::kLoads < 4 ? S::kLoads : 4);
  static constexpr int kBatches = S::kLoads / kBatch;
  static_assert(S::kLoads % kBatch == 0);

  DType type;
  int at;  // the first element of a row that it reads
  int64_t row_bytes;
  uint4 raw[kIsCopied ? 1 : kBatch];

  __device__ Bringer(DType type_of_rows, int64_t first, int64_t dim,
                     int64_t bytes)
      : type(type_of_rows), row_bytes(bytes) {
    const int chunk = ThreadIndex() % S::kChunks * 8;
    at = static_cast<int>(first) + (chunk < dim ? chunk : 0);
  }

  __device__ DType Type() const { return kType == DType::kBF16 ? type : kType; }
  static __device__ int Key(int i) {
    return ThreadIndex() / S::kChunks + i * S::kLoadStride;
  }
  static __device__ std::byte* Place(std::byte* operand, int i) {
    return operand + OperandByte(kKeys, Key(i), ThreadIndex() % S::kChunks);
  }
  __device__ void BringOne(std::byte* operand, int first, int i,
                           const std::byte* row) {
    if constexpr (kIsCopied) {
      StartCopy(Place(operand, first + i), row + at * 2);
    } else {
      raw[i] = LoadRaw(Type(), row, at);
    }
  }

  // Loads the batch from chunk `first` on. If rows follow one another, the row
  // of key 0 begins at `plain`; otherwise the row of a live key begins at
  // row(key).
  template <class Row>
  __device__ void Bring(const KeyTile& tile, const std::byte* plain,
                        const Row& row, std::byte* operand, int first) {
    if (tile.is_plain) {
      const std::byte* from = plain + Key(first) * row_bytes;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        BringOne(operand, first, i, from);
        from += S::kLoadStride * row_bytes;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      // A key that is not live may have no row. The nearest live key is read
      // instead; its score is not used, and its weight is zero.
      BringOne(operand, first, i, row(NearestLive(tile.step, Key(first + i))));
    }
  }
  __device__ void Store(std::byte* operand, int first) const {
    if constexpr (!kIsCopied) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        *reinterpret_cast<uint4*>(Place(operand, first + i)) =
            HalvesOf(Type(), raw[i]);
      }
    }
  }

  // Starts to load a tile, as far as registers allow; continues the load; and
  // ends it.
  template <class Row>
  __device__ void Start(const KeyTile& tile, const std::byte* plain,
                        const Row& row, std::byte* operand) {
    if constexpr (kIsCopied || kIsHeld) Bring(tile, plain, row, operand, 0);
  }
  template <class Row>
  __device__ void Continue(const KeyTile& tile, const std::byte* plain,
                           const Row& row, std::byte* operand) {
    if constexpr (kIsHeld && kBatches == 2) {
      Store(operand, 0);
      Bring(tile, plain, row, operand, kBatch);
    }
  }
  template <class Row>
  __device__ void Finish(const KeyTile& tile, const std::byte* plain,
                         const Row& row, std::byte* operand) {
    if constexpr (kIsHeld) {
      static_assert(kBatches <= 2);
      Store(operand, S::kLoads - kBatch);
    } else if constexpr (!kIsCopied) {
#pragma unroll 1
      for (int first = 0; first < S::kLoads; first += kBatch) {
        Bring(tile, plain, row, operand, first);
        Store(operand, first);
      }
    }
  }
};

// Rounds the block's queries and stores them in shared memory, with the powers
// of two by which scores must be multiplied. Queries that do not exist become
// zeros.
template <class S>
__device__ void StageQueries(const AttentionShape& shape, const Task& task,
                             bool is_prefix) {
  const float* from = is_prefix ? shape.q_prefix : shape.q;
  auto* powers = reinterpret_cast<float*>(DynamicShared() + S::kPowersAt);
  const int chunk = LaneIndex();
  for (int i = 0; i < 16; ++i) {
    const int query = WarpIndex() * 16 + i;
    float x[8] = {};
    if (task.Has(query) && chunk * 8 < shape.head_dim) {
      const auto* row = reinterpret_cast<const uint4*>(
          from + task.Index(query, shape.n_heads) * shape.head_dim + chunk * 8);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 four = row[half];
        x[4 * half] = FloatOfBits(four.x);
        x[4 * half + 1] = FloatOfBits(four.y);
        x[4 * half + 2] = FloatOfBits(four.z);
        x[4 * half + 3] = FloatOfBits(four.w);
      }
    }
    float max = 0;
#pragma unroll
    for (const float value : x) max = fmaxf(max, fabsf(value));
    max = WarpMax(max);
    // The largest element is scaled to [2^12, 2^13).
    constexpr uint32_t kLeast = 13;
    constexpr uint32_t kMost = 253;
    uint32_t exponent = BitsOfFloat(max) >> 23;
    exponent = exponent < kLeast ? kLeast : exponent;
    exponent = exponent > kMost ? kMost : exponent;
    const float factor = FloatOfBits((254 + 12 - exponent) << 23);
    if (chunk == 0) powers[query] = FloatOfBits((exponent - 12) << 23);
    if (chunk >= S::kChunks) continue;
    uint32_t pairs[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      pairs[p] = PackHalves(x[2 * p] * factor, x[2 * p + 1] * factor);
    }
    *reinterpret_cast<uint4*>(DynamicShared() +
                              OperandByte(S::kQueries, query, chunk)) = {
        pairs[0], pairs[1], pairs[2], pairs[3]};
  }
}

// ---- Products --------------------------------------------------------------

// Begins to compute the scores of the warp's queries: scores[4 n ...] belong to
// keys 8 n + 2 t and the next one, for query g and then for query g + 8.
template <class S>
__device__ void StartScores(const std::byte* keys, float* scores) {
  if constexpr (S::kUsesWgmma) {
    uint32_t q_at =
        SharedAddress(DynamicShared()) +
        static_cast<uint32_t>(WarpIndex() / 4 * (64 * kSwizzleRowBytes));
    const uint32_t k_at = SharedAddress(keys);
#ifndef PLIMSOLL_CUDA_EMULATED
    // Keeps the compiler from holding all descriptors in registers.
    asm volatile("" : "+r"(q_at));
#endif
#pragma unroll
    for (int j = 0; j < S::kHead / 16; ++j) {
      const uint64_t q = WgmmaDescriptor(
          q_at + static_cast<uint32_t>(j / 4 * S::kQueries * kSwizzleRowBytes),
          j % 4);
      const uint64_t k = WgmmaDescriptor(
          k_at + static_cast<uint32_t>(j / 4 * kKeys * kSwizzleRowBytes),
          j % 4);
      if (j == 0) {
        MultiplyShared<false>(q, k, scores);
      } else {
        MultiplyShared<true>(q, k, scores);
      }
    }
  } else {
    const int lane = LaneIndex();
#pragma unroll
    for (int i = 0; i < kScores; ++i) scores[i] = 0;
#pragma unroll 4
    for (int j = 0; j < S::kHead / 16; ++j) {
      uint32_t a[4];
      LoadMatrices<false>(
          DynamicShared() + OperandByte(S::kQueries,
                                        WarpIndex() * 16 + lane % 16,
                                        2 * j + lane / 16),
          a);
#pragma unroll
      for (int n = 0; n < kGroups; n += 2) {
        uint32_t b[4];
        LoadMatrices<false>(
            keys + OperandByte(kKeys, n * 8 + lane / 16 * 8 + lane % 8,
                               2 * j + lane / 8 % 2),
            b);
        MmaFloat<false>(a, b, scores + 4 * n);
        MmaFloat<false>(a, b + 2, scores + 4 * n + 4);
      }
    }
  }
}

// Begins to add weights times values. sums[4 n ...] belong to elements 8 n + 2
// t and the next one.
template <class S>
__device__ void StartSums(const std::byte* values, const uint32_t* weights,
                          float* sums) {
  if constexpr (S::kUsesWgmma) {
    constexpr int kColumns = S::kHead < 128 ? S::kHead : 128;
    constexpr int kBlockBytes = kKeys * kSwizzleRowBytes;
    const uint32_t at = SharedAddress(values);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
#pragma unroll
      for (int c = 0; c < S::kHead; c += kColumns) {
        const uint64_t v = TransposedDescriptor(
            at + static_cast<uint32_t>(c / kSwizzleColumns * kBlockBytes), i,
            kBlockBytes);
        MultiplyTransposed<kColumns>(weights + 4 * i, v, sums + c / 2);
      }
    }
  } else {
    const int lane = LaneIndex();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
#pragma unroll
      for (int c = 0; c < S::kChunks; c += 2) {
        uint32_t b[4];
        LoadMatrices<true>(
            values + OperandByte(kKeys, i * 16 + lane % 16, c + lane / 16), b);
        MmaFloat<false>(weights + 4 * i, b, sums + 4 * c);
        MmaFloat<false>(weights + 4 * i, b + 2, sums + 4 * c + 4);
      }
    }
  }
}

// The order of products and of the code that uses their results, if products
// run asynchronously (wgmma.cuh).
template <class S>
__device__ void Begin() {
  if constexpr (S::kUsesWgmma) BeginProducts();
}
template <class S>
__device__ void Commit() {
  if constexpr (S::kUsesWgmma) CommitProducts();
}
template <class S, int kLeft, int kN>
__device__ void Await(float (&sums)[kN]) {
  if constexpr (S::kUsesWgmma) {
    AwaitProducts<kLeft>();
    KeepSums(sums);
  }
}

// ---- Softmax ---------------------------------------------------------------

// The softmax of queries g and g + 8, in powers of two: the running maximum,
// and this lane's part of the sum of weights.
struct PromptSoftmax {
  float max[2];
  float total[2];
};

// The soft-capped score, with a relative error of about 2^-20.
__device__ inline float CappedFast(const AttentionShape& shape, float score) {
  const float x = score * shape.inverse_soft_cap;
  const float power = PowerOfTwo(x * (2 * kLog2OfE));
#ifdef PLIMSOLL_CUDA_EMULATED
  const float quotient = 2.0f / (power + 1.0f);
#else
  const float quotient = __fdividef(2.0f, power + 1.0f);
#endif
  // The difference from 1 loses the digits of small results, so the series of
  // tanh is used for them.
  const float square = x * x;
  float series = Fma(square, 62.0f / 2835, -17.0f / 315);
  series = Fma(series, square, 2.0f / 15);
  series = Fma(series, square, -1.0f / 3);
  series = Fma(series * square, x, x);
  return shape.soft_cap * (fabsf(x) < 0.25f ? series : 1.0f - quotient);
}

// Scales scores to exponents of two; `units` are the powers of two of the
// queries. Keys that a query does not see get minus infinity.
template <class S>
__device__ void FinishScores(const AttentionShape& shape, const Task& task,
                             const KeyTile& tile, const float* units,
                             float* scores) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool has_cap = shape.soft_cap != 0.0f;
    const float unit = units[half] * shape.scale * (has_cap ? 1.0f : kLog2OfE);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      scores[4 * n + 2 * half] *= unit;
      scores[4 * n + 2 * half + 1] *= unit;
    }
  }
  if (shape.soft_cap != 0.0f) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      scores[i] = CappedFast(shape, scores[i]) * kLog2OfE;
    }
  }
  if (tile.is_whole) return;
  const Step& step = tile.step;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = task.Row(WarpIndex() * 16 + LaneIndex() / 4 + half * 8);
    const int64_t past = task.tile.first_position + row + 1 - step.position;
    const int64_t first =
        shape.is_ring ? FirstOfRing(task, row) - step.position : 0;
    // Keys [begin, begin + n_seen) of the step are seen.
    const int begin = first < step.begin ? step.begin : StepKey<S>(first);
    const int end = past < step.end ? StepKey<S>(past) : step.end;
    const auto n_seen = static_cast<unsigned>(end > begin ? end - begin : 0);
    const int from = LaneIndex() % 4 * 2 - begin;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const auto key = static_cast<unsigned>(n * 8 + e + from);
        float& score = scores[4 * n + 2 * half + e];
        score = key < n_seen ? score : MinusInfinity();
      }
    }
  }
}

// Turns finished scores into weights; `factors` gets the factors for earlier
// sums. A NaN score makes the total NaN.
__device__ inline void Weigh(float* scores, PromptSoftmax& state,
                             float* factors) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float max = state.max[half];
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float* pair = scores + 4 * n + 2 * half;
      max = fmaxf(max, fmaxf(pair[0], pair[1]));
    }
    for (int mask = 1; mask < 4; mask *= 2) {
      max = fmaxf(max, __shfl_xor_sync(kFullWarp, max, mask));
    }
    // While no key is seen, all weights are zero.
    const float from = max == MinusInfinity() ? 0.0f : max;
    factors[half] = PowerOfTwo(state.max[half] - from);
    float total = 0;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      float* pair = scores + 4 * n + 2 * half;
      pair[0] = PowerOfTwo(pair[0] - from);
      pair[1] = PowerOfTwo(pair[1] - from);
      total += pair[0] + pair[1];
    }
    state.total[half] = state.total[half] * factors[half] + total;
    state.max[half] = max;
  }
}

// Keeps the assembler from moving the computation of a number behind the
// following wait for products, because it does not move this store there.
// `place` belongs to this thread.
__device__ inline void StayBefore(std::byte* place, float number) {
  *reinterpret_cast<volatile float*>(place) = number;
}

// Rounds weights to operands.
__device__ inline void PackWeights(const float* scores, uint32_t* weights) {
#pragma unroll
  for (int i = 0; i < kWeights; ++i) {
    weights[i] = PackHalves(scores[2 * i], scores[2 * i + 1]);
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_TILES_CUH_
