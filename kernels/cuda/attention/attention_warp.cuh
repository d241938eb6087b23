// Attention by a warp: one softmax over the keys of a span for a few queries
// that read the same KV head.
//
// The lanes share the elements of a head; 32 / kLanes keys are taken side by
// side. The scores of a step are summed over lanes so that each lane ends up
// with one score. Nothing here needs more than one warp.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_WARP_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_WARP_CUH_

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/kv_load.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

inline constexpr int kAttentionWarps = 4;  // in a block of threads

// The part of AttentionArgs that the device reads.
struct AttentionShape {
  const float* q;
  const float* q_prefix;
  float* out;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t value_dim;
  int64_t tile_heads;    // heads of a task, in one row
  int64_t n_head_tiles;  // tiles of the heads that read one KV head
  float scale;
  float soft_cap;          // 0: none
  float inverse_soft_cap;  // finite
  DType k_type;
  DType v_type;
  bool is_ring;
  PagedKv paged;
  int64_t k_row_bytes;
  int64_t v_row_bytes;
  const std::byte* chunk_k;
  const std::byte* chunk_v;
  const float* sinks;  // [n_heads] or nullptr
};

// The constants of a kernel: kLanes lanes share a key, and each lane has
// kChunks times 8 elements of it, 8 * kLanes apart, and kValueChunks times 8
// elements of a value.
template <int kLanesOfKey, int kChunksOfLane,
          int kValueChunksOfLane = kChunksOfLane>
struct Shape {
  static constexpr int kLanes = kLanesOfKey;
  static constexpr int kChunks = kChunksOfLane;
  static constexpr int kValueChunks = kValueChunksOfLane;
  static constexpr int kQueries = kChunks == 1 ? 4 : 2;
  static constexpr int kElements = kChunks * 8;
  static constexpr int kValueElements = kValueChunks * 8;
  static constexpr int kSums = kQueries * kValueElements;
  static constexpr int kSideBySide = kWarpThreads / kLanes;
  static constexpr int kInTurn = kLanes / kQueries;  // keys of a lane in a step
  // The number of these keys that are loaded at once. More would fill the
  // registers.
  static constexpr int kLoads = kInTurn < 8 / kChunks ? kInTurn : 8 / kChunks;
  static constexpr int kStepKeys = kSideBySide * kInTurn;
  static constexpr int64_t kKeysOfUnit = kUnitKeys;
  static constexpr int kSteps = kUnitKeys / kStepKeys;
  // Floats of a warp: the scores of a unit; the sums of a span; the sums of all
  // spans.
  static constexpr int kScoreFloats = kSteps * kWarpThreads;
  static constexpr int kSumFloats = kSums * kWarpThreads;
  static constexpr int kWarpFloats = kScoreFloats + 2 * kSumFloats;
  static constexpr int64_t kSharedBytes =
      int64_t{kAttentionWarps} * kWarpFloats * 4;
  static_assert(kQueries * kInTurn == kLanes);
  static_assert(kSharedBytes <= kMaxSharedBytes);
};

// A running softmax: the maximum and the sum of weights of the lane's own
// query. The sums of values are in shared memory, each lane's by itself.
struct Softmax {
  float max;
  float total;
};

// The task of a warp.
struct Task {
  const AttentionTile& tile;
  int kv_head;
  int first_head;
  int n_heads;     // in each row
  int tile_heads;  // heads that a row may have here

  __device__ int Row(int query) const { return query / tile_heads; }
  __device__ bool Has(int query) const {
    return Row(query) < tile.n_rows && query % tile_heads < n_heads;
  }
  __device__ int Head(int query) const {
    return first_head + query % tile_heads;
  }
  // The index of the query in the step's [n_rows, n_heads] rows.
  __device__ int64_t Index(int query, int64_t all_heads) const {
    return (tile.first_row + Row(query)) * all_heads + Head(query);
  }
};

// The task of tile `head_tile` of the heads that read KV head `kv_head`:
// `group` heads read it, and a tile has `shape.tile_heads` of them.
__device__ __forceinline__ Task TaskOf(const AttentionShape& shape,
                                       const AttentionTile& tile, int group,
                                       int kv_head, int head_tile) {
  const auto tile_heads = static_cast<int>(shape.tile_heads);
  const int left = group - head_tile * tile_heads;
  return {tile, kv_head, kv_head * group + head_tile * tile_heads,
          left < tile_heads ? left : tile_heads, tile_heads};
}

// The keys of a step. The live ones, which some row of the tile may see, are
// [begin, end); there may be none. Keys before ring_end are rows of the ring:
// key j is row cell + j, or row cell + j - window if cell + j reaches the
// window. All other keys are rows of k and v, in a page or in the chunk: key j
// is row `row` + j.
struct Step {
  int64_t position;  // key 0's position
  int begin;
  int end;
  bool is_prefix;
  const std::byte* k;
  const std::byte* v;
  int row;
  int ring_end;
  const std::byte* ring_k;
  const std::byte* ring_v;
  int cell;
  int window;
};

// The first position of a ring that the tile's row `row` sees.
__device__ inline int64_t FirstOfRing(const Task& task, int64_t row) {
  const int64_t first = task.tile.first_position + row - task.tile.window + 1;
  const int64_t live =
      first > task.tile.live_begin ? first : task.tile.live_begin;
  return live > 0 ? live : 0;
}

// Converts a key's index in a unit or page to one in a step, clamped to the
// step's ends.
template <class S>
__device__ int StepKey(int64_t key) {
  if (key < 0) return 0;
  return key < S::kStepKeys ? static_cast<int>(key) : S::kStepKeys;
}

// The step of a ring that begins at `position`, whose cell is `cell`.
template <class S>
__device__ Step RingStep(const AttentionShape& shape, const Task& task,
                         int64_t position, int cell) {
  const int64_t past = task.tile.first_position + task.tile.n_rows;
  Step step = {};
  step.position = position;
  step.begin = StepKey<S>(FirstOfRing(task, 0) - position);
  step.end = StepKey<S>(past - position);
  step.k = shape.chunk_k;
  step.v = shape.chunk_v;
  const int64_t ring_end = task.tile.chunk_position - position;
  step.row = static_cast<int>(task.tile.chunk_row - ring_end);
  step.ring_end = StepKey<S>(ring_end);
  step.ring_k = task.tile.ring_k;
  step.ring_v = task.tile.ring_v;
  // A ring has more cells than live keys, so from the first live key on the
  // cells wrap around at most once. All numbers are below 2^31.
  step.window = static_cast<int>(task.tile.window);
  step.cell = cell + step.begin;
  if (step.cell >= step.window) step.cell %= step.window;
  step.cell -= step.begin;
  return step;
}

// The step of a page, which is in the table, that begins at its cell `cell`.
template <class S>
__device__ Step PageStep(const AttentionShape& shape, const Task& task,
                         int64_t page, int64_t cell) {
  const int64_t past = task.tile.first_position + task.tile.n_rows;
  Step step = {};
  const PageEntry& entry = task.tile.pages[page];
  step.position = entry.first_position + cell;
  step.begin = StepKey<S>(entry.live_begin - cell);
  const int64_t live_end = entry.live_end - cell;
  step.end = StepKey<S>(live_end < past - step.position ? live_end
                                                        : past - step.position);
  step.is_prefix = entry.is_prefix;
  const std::byte* base =
      shape.paged.pool + entry.page * shape.paged.page_bytes;
  step.k = base + shape.paged.k_offset + cell * shape.k_row_bytes;
  step.v = base + shape.paged.v_offset + cell * shape.v_row_bytes;
  return step;
}

// Finds the steps of a unit. S has kStepKeys, kKeysOfUnit, and their quotient
// kSteps.
template <class S>
struct Unit {
  int64_t first;  // first page, or first position
  int ring_cell;
  int page_steps;  // steps of a page, in a paged layer
  int n_steps;

  __device__ Unit(const AttentionShape& shape, const Task& task, int64_t unit) {
    first = unit * S::kKeysOfUnit;
    ring_cell = 0;
    page_steps = 1;
    n_steps = S::kSteps;
    if (shape.is_ring) {
      ring_cell = static_cast<int>(first % task.tile.window);
      return;
    }
    const int64_t tokens = shape.paged.page_tokens;
    const int64_t n_pages = UnitPages(tokens, S::kStepKeys, S::kKeysOfUnit);
    first = unit * n_pages;
    page_steps =
        static_cast<int>(PageSlots(tokens, S::kStepKeys) / S::kStepKeys);
    n_steps = static_cast<int>(n_pages) * page_steps;
  }

  __device__ Step At(const AttentionShape& shape, const Task& task,
                     int index) const {
    if (shape.is_ring) {
      return RingStep<S>(shape, task, first + index * S::kStepKeys,
                         ring_cell + index * S::kStepKeys);
    }
    const int64_t page = first + index / page_steps;
    if (page >= task.tile.n_pages) return {};  // none of its keys is live
    return PageStep<S>(shape, task, page,
                       int64_t{index % page_steps} * S::kStepKeys);
  }
};

__device__ inline bool HasLive(const Step& step) {
  return step.begin < step.end;
}
__device__ inline bool IsLive(const Step& step, int key) {
  return key >= step.begin && key < step.end;
}
// The live key that is nearest to `key`. The step must have a live key; without
// one, memory may hold no row.
__device__ inline int NearestLive(const Step& step, int key) {
  if (key < step.begin) return step.begin;
  return key < step.end ? key : step.end - 1;
}

// The address of a live key's row. It is selected without a branch, so that the
// loads of a step's keys stay together.
__device__ inline const std::byte* RowOf(const Step& step, int key,
                                         const std::byte* rows,
                                         const std::byte* ring,
                                         int64_t row_bytes) {
  const int cell = step.cell + key;
  const int ring_row = cell < step.window ? cell : cell - step.window;
  const bool is_in_ring = key < step.ring_end;
  return (is_in_ring ? ring : rows) +
         (is_in_ring ? ring_row : step.row + key) * row_bytes;
}

__device__ inline const std::byte* KeyRow(const AttentionShape& shape,
                                          const Step& step, int key) {
  return RowOf(step, key, step.k, step.ring_k, shape.k_row_bytes);
}
__device__ inline const std::byte* ValueRow(const AttentionShape& shape,
                                            const Step& step, int key) {
  return RowOf(step, key, step.v, step.ring_v, shape.v_row_bytes);
}

// The rows of a step's keys, each with `dim` elements of a head.
struct StepKeys {
  const AttentionShape& shape;
  const Step& step;

  __device__ const std::byte* Row(int key) const {
    return KeyRow(shape, step, key);
  }
  __device__ int64_t dim() const { return shape.head_dim; }
};

// The rows of a step's values, each with `dim` elements of a head.
struct StepValues {
  const AttentionShape& shape;
  const Step& step;

  __device__ const std::byte* Row(int key) const {
    return ValueRow(shape, step, key);
  }
  __device__ int64_t dim() const { return shape.value_dim; }
};

// Loads this lane's elements of the queries, and zeros for queries that do not
// exist.
template <class S>
__device__ void LoadQueries(const AttentionShape& shape, const Task& task,
                            bool is_prefix, float* q) {
  const float* from = is_prefix ? shape.q_prefix : shape.q;
  const int64_t first = LaneIndex() % S::kLanes * 8;
  for (int i = 0; i < S::kQueries; ++i) {
    for (int c = 0; c < S::kElements; ++c) {
      const int64_t at = first + c / 8 * (S::kLanes * 8) + c % 8;
      q[i * S::kElements + c] =
          task.Has(i) && at < shape.head_dim
              ? from[task.Index(i, shape.n_heads) * shape.head_dim + at]
              : 0.0f;
    }
  }
}

// Sums values[i], i < 2 kStride, over lanes with distances of kStride and less;
// lane t of them gets sum t. Strides are constants, so that the values stay in
// registers.
template <int kStride>
__device__ float SumAcross(float* values) {
  if constexpr (kStride == 0) {
    return values[0];
  } else {
    const bool is_upper = (LaneIndex() & kStride) != 0;
#pragma unroll
    for (int i = 0; i < kStride; ++i) {
      const float mine = is_upper ? values[i + kStride] : values[i];
      const float theirs = is_upper ? values[i] : values[i + kStride];
      values[i] = mine + __shfl_xor_sync(kFullWarp, theirs, kStride);
    }
    return SumAcross<kStride / 2>(values);
  }
}

// The soft-capped score; the shape has a cap.
__device__ inline float Capped(const AttentionShape& shape, float score) {
  return shape.soft_cap * tanhf(score * shape.inverse_soft_cap);
}

// This lane's elements of kLoads keys or values, from key `first` on. The step
// has live keys. A key that is not live may have no row. The nearest live key
// is read instead.
template <class S, DType kType, int kChunks>
struct StoredKeys {
  using Head = StoredHead<kType, S::kLanes, kChunks>;
  Head heads[S::kLoads];

  // Reads the task's head from rows of StepKeys or of StepValues.
  template <class Rows>
  __device__ StoredKeys(const AttentionShape& shape, const Task& task,
                        const Step& step, int first, const Rows& rows) {
#pragma unroll
    for (int u = 0; u < S::kLoads; ++u) {
      heads[u].Load(rows.Row(NearestLive(step, first + u)),
                    task.kv_head * shape.head_dim, rows.dim());
    }
  }
};

// The scores of one step that has live keys, for one element type of keys.
template <class S, DType kType>
__device__ float StepScore(const AttentionShape& shape, const Task& task,
                           const Step& step, const float* q) {
  const int first = LaneIndex() / S::kLanes * S::kInTurn;
  const StepKeys stored = {shape, step};
  using Keys = StoredKeys<S, kType, S::kChunks>;
  const auto is_in_head = [&](int c) {
    return Keys::Head::Place(c) < shape.head_dim;
  };
  float sums[S::kLanes];
#pragma unroll
  for (int begin = 0; begin < S::kInTurn; begin += S::kLoads) {
    const Keys keys(shape, task, step, first + begin, stored);
#pragma unroll
    for (int u = 0; u < S::kLoads; ++u) {
      // Scores of keys that are not live are never used.
      float k[S::kElements];
      keys.heads[u].ToFloats(is_in_head, k);
#pragma unroll
      for (int i = 0; i < S::kQueries; ++i) {
        float sum = 0;
#pragma unroll
        for (int c = 0; c < S::kElements; ++c) {
          sum = Fma(q[i * S::kElements + c], k[c], sum);
        }
        sums[(begin + u) * S::kQueries + i] = sum;
      }
    }
  }
  return SumAcross<S::kLanes / 2>(sums);
}

// Computes the scores of a unit: entry step * 32 + lane is the score of the
// lane's own query and key. Masked scores are minus infinity.
template <class S, DType kType>
__device__ void ScoreUnit(const AttentionShape& shape, const Task& task,
                          const Unit<S>& unit, float* scores) {
  const int lane = LaneIndex();
  const int own_key =
      lane / S::kLanes * S::kInTurn + lane % S::kLanes / S::kQueries;
  const int64_t own_row = task.Row(lane % S::kQueries);
  const int64_t last = task.tile.first_position + own_row;
  const int64_t first = shape.is_ring ? FirstOfRing(task, own_row) : 0;
  float q[S::kQueries * S::kElements];
  bool is_prefix = false;
  LoadQueries<S>(shape, task, is_prefix, q);
  for (int i = 0; i < unit.n_steps; ++i) {
    const Step step = unit.At(shape, task, i);
    if (!HasLive(step)) {
      scores[i * kWarpThreads + lane] = MinusInfinity();
      continue;
    }
    if (step.is_prefix != is_prefix) {
      is_prefix = step.is_prefix;
      LoadQueries<S>(shape, task, is_prefix, q);
    }
    float score = StepScore<S, kType>(shape, task, step, q) * shape.scale;
    if (shape.soft_cap > 0.0f) score = Capped(shape, score);
    const int64_t position = step.position + own_key;
    const bool is_seen =
        IsLive(step, own_key) && position <= last && position >= first;
    scores[i * kWarpThreads + lane] = is_seen ? score : MinusInfinity();
  }
}

// The maximum, and below the sum, over the lanes that have the same query.
template <class S>
__device__ float QueryMax(float x) {
  for (int mask = S::kQueries; mask < kWarpThreads; mask *= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, mask));
  }
  return x;
}
template <class S>
__device__ float QuerySum(float x) {
  for (int mask = S::kQueries; mask < kWarpThreads; mask *= 2) {
    x += __shfl_xor_sync(kFullWarp, x, mask);
  }
  return x;
}

// Turns a unit's scores into weights. A NaN score makes the total NaN.
template <class S>
__device__ Softmax WeighUnit(int n_steps, float* scores) {
  const int lane = LaneIndex();
  Softmax unit = {MinusInfinity(), 0};
  for (int step = 0; step < n_steps; ++step) {
    unit.max = fmaxf(unit.max, scores[step * kWarpThreads + lane]);
  }
  unit.max = QueryMax<S>(unit.max);
  for (int step = 0; step < n_steps; ++step) {
    float& score = scores[step * kWarpThreads + lane];
    score = score == MinusInfinity() ? 0.0f : expf(score - unit.max);
    unit.total += score;
  }
  unit.total = QuerySum<S>(unit.total);
  return unit;
}

// Sums the unit's values by their weights, over all keys. Every lane gets the
// sums.
template <class S, DType kType>
__device__ void SumUnit(const AttentionShape& shape, const Task& task,
                        const Unit<S>& unit, const float* weights,
                        float* sums) {
  const int first = LaneIndex() / S::kLanes * S::kInTurn;
  for (int i = 0; i < S::kSums; ++i) sums[i] = 0;
  for (int n = 0; n < unit.n_steps; ++n) {
    const Step step = unit.At(shape, task, n);
    if (!HasLive(step)) {
      // Zero values by zero weights would do this too: a sum of -0 becomes 0.
      for (int i = 0; i < S::kSums; ++i) sums[i] += 0.0f;
      continue;
    }
    const StepValues stored = {shape, step};
#pragma unroll 1
    for (int begin = 0; begin < S::kInTurn; begin += S::kLoads) {
      const StoredKeys<S, kType, S::kValueChunks> values(shape, task, step,
                                                         first + begin, stored);
#pragma unroll
      for (int u = 0; u < S::kLoads; ++u) {
        // Sums beyond the end of the head are not used.
        const bool is_live = IsLive(step, first + begin + u);
        float v[S::kValueElements];
        values.heads[u].ToFloats([&](int) { return is_live; }, v);
        const float* p =
            weights + n * kWarpThreads + (first + begin + u) * S::kQueries;
#pragma unroll
        for (int i = 0; i < S::kQueries; ++i) {
#pragma unroll
          for (int c = 0; c < S::kValueElements; ++c) {
            float& sum = sums[i * S::kValueElements + c];
            sum = Fma(p[i], v[c], sum);
          }
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < S::kSums; ++i) {
    for (int mask = S::kLanes; mask < kWarpThreads; mask *= 2) {
      sums[i] += __shfl_xor_sync(kFullWarp, sums[i], mask);
    }
  }
}

// The factors for the sums of two softmaxes when they are merged.
struct Factors {
  float state;
  float added;
};

// Merges `added` into `state`. A softmax that saw no key changes nothing. There
// are no branches, so that computations that do not depend on `state` can run
// in parallel with the others.
__device__ inline Factors Merge(const Softmax& added, Softmax& state) {
  const bool is_empty = added.max == MinusInfinity() && added.total == 0.0f;
  const float max = fmaxf(state.max, added.max);
  const float of_state =
      state.max == MinusInfinity() ? 0.0f : expf(state.max - max);
  const float of_added = expf(added.max - max);
  const float total = Fma(added.total, of_added, state.total * of_state);
  state.total = is_empty ? state.total : total;
  state.max = is_empty ? state.max : max;
  return {is_empty ? 1.0f : of_state, is_empty ? 0.0f : of_added};
}

__device__ inline float MergedSum(float added, float state,
                                  const Factors& factors) {
  return factors.added == 0.0f
             ? state * factors.state
             : Fma(added, factors.added, state * factors.state);
}

// Merges, with the softmax, the lane's part of all queries' sums, which are in
// shared memory.
template <class S, class Added>
__device__ void MergeSums(const Softmax& added, Softmax& state,
                          const Added& added_sum, float* state_sums) {
  const Factors own = Merge(added, state);
  const int lane = LaneIndex();
#pragma unroll
  for (int i = 0; i < S::kQueries; ++i) {
    const Factors factors = {__shfl_sync(kFullWarp, own.state, i),
                             __shfl_sync(kFullWarp, own.added, i)};
#pragma unroll
    for (int c = 0; c < S::kValueElements; ++c) {
      const int at = i * S::kValueElements + c;
      float& sum = state_sums[at * kWarpThreads + lane];
      sum = MergedSum(added_sum(at), sum, factors);
    }
  }
}

template <class S>
__device__ void Clear(Softmax& state, float* state_sums) {
  state = {MinusInfinity(), 0};
  for (int i = 0; i < S::kSums; ++i) {
    state_sums[i * kWarpThreads + LaneIndex()] = 0;
  }
}

// The sum of all weights of a row, together with the weight of the head's sink.
// A sink far above the scores makes the sum infinite; the row is then zeros.
__device__ inline float TotalWithSink(const AttentionShape& shape, int64_t head,
                                      const Softmax& all) {
  if (shape.sinks == nullptr || all.total == 0.0f) return all.total;
  return all.total + expf(shape.sinks[head] - all.max);
}

// Calls write(query, element of the head, value) for each sum that this lane
// has. The lanes of the first key have all of them.
template <class S, class Write>
__device__ void WriteSums(const AttentionShape& shape, const Task& task,
                          const float* state_sums, const Write& write) {
  const int lane = LaneIndex();
  if (lane >= S::kLanes) return;
#pragma unroll
  for (int i = 0; i < S::kSums; ++i) {
    const int query = i / S::kValueElements;
    const int64_t at =
        lane * 8 + i % S::kValueElements / 8 * (S::kLanes * 8) + i % 8;
    if (!task.Has(query) || at >= shape.value_dim) continue;
    write(query, at, state_sums[i * kWarpThreads + lane]);
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_WARP_CUH_
