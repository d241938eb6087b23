// What attention's loops share: the state of queries between blocks of keys.
// Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_STATE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_STATE_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_STATE_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ATTENTION_ATTENTION_STATE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/backend.h"
#include "kernels/cpu/attention/attention_tasks.h"
#include "kernels/cpu/attention/kv_load-inl.h"
#include "kernels/cpu/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kNone = -std::numeric_limits<float>::infinity();

// A running softmax over the keys seen so far: the largest score and the sum of
// weights relative to it. The sums of values are kept elsewhere.
struct State {
  float max = kNone;
  float total = 0;
};

// The state of one query between blocks, and its view of the current block.
struct Query {
  int64_t row;  // in the step's buffers
  int64_t head;
  int64_t position;
  RowBlocks blocks;
  int64_t span;   // number of the current span
  State now;      // state of the current span
  State before;   // state of all spans before it
  int64_t begin;  // cells of the block that it sees
  int64_t end;
};

// The place of a block's cells in memory: those of the task's first KV head.
struct Cells {
  int64_t n = 0;
  const std::byte* keys[kAttentionBlock];
  const std::byte* values[kAttentionBlock];
};

// Prefetches rows of the next block, a little at a time, while the current one
// is computed. It takes them as they lie in memory, for all of the task's KV
// heads, so that the CPU's own prefetching helps. They go to the second cache:
// they would only drive the current block out of the first. Measured for one
// row of 16 heads of 256, 4 KV heads and 100,000 keys: 10 GB/s without the
// order, 20 with it, and 31 into the second cache, of 32 that the memory has.
class RowsAhead {
 public:
  // `rows` are `n_rows` pointers to `n_bytes` bytes each.
  RowsAhead(const std::byte* const* rows, int64_t n_rows, int64_t n_bytes)
      : row_(rows), end_(rows + n_rows), n_bytes_(n_bytes) {}

  // Prefetches the next `n_bytes` bytes.
  HWY_INLINE void Prefetch(int64_t n_bytes) {
    if (row_ == end_) return;
    for (int64_t i = 0; i < n_bytes; i += kLineBytes) {
      PrefetchToSecondCache(*row_ + at_ + i);
    }
    at_ += n_bytes;
    if (at_ < n_bytes_) return;
    at_ = 0;
    ++row_;
  }

 private:
  static constexpr int64_t kLineBytes = 64;

  const std::byte* const* row_;
  const std::byte* const* end_;
  int64_t n_bytes_;
  int64_t at_ = 0;
};

// The current block of one KV head, and the cells of it that at least one query
// sees.
struct Block {
  const Cells& cells;
  int64_t k_offset;  // the KV head's bytes behind those of `cells`
  int64_t v_offset;
  RowsAhead& next_keys;
  RowsAhead& next_values;
  int64_t begin;
  int64_t end;
  bool is_prefix;

  const std::byte* Key(int64_t cell) const {
    return cells.keys[cell] + k_offset;
  }
  const std::byte* Value(int64_t cell) const {
    return cells.values[cell] + v_offset;
  }
};

inline const float* QueryVector(const AttentionArgs& args, const Query& query,
                                bool is_prefix) {
  const float* q = is_prefix ? args.q_prefix : args.q;
  return q + (query.row * args.n_heads + query.head) * args.head_dim;
}

// Soft-caps the scores of a block: soft_cap * tanh(score / soft_cap). Scores of
// cells that the query does not see may be anything.
inline void Cap(float soft_cap, float* scores) {
  const AttentionTag d;
  const auto cap = hn::Set(d, soft_cap);
  for (int64_t j = 0; j < kAttentionBlock; j += kLanes) {
    const auto score = hn::LoadU(d, scores + j);
    hn::StoreU(hn::Mul(cap, hn::Tanh(d, hn::Div(score, cap))), d, scores + j);
  }
}

// Turns scores into weights, updates the query's running maximum and total, and
// rescales its sums if the maximum grew.
inline void Soften(const AttentionArgs& args, Query& query, float* scores,
                   float* sums) {
  const AttentionTag d;
  State& state = query.now;
  if (args.soft_cap > 0) Cap(args.soft_cap, scores);
  std::fill(scores, scores + query.begin, kNone);
  std::fill(scores + query.end, scores + kAttentionBlock, kNone);
  auto v_max = hn::Set(d, state.max);
  for (int64_t j = 0; j < kAttentionBlock; j += kLanes) {
    v_max = hn::Max(v_max, hn::LoadU(d, scores + j));
  }
  const float max = hn::GetLane(hn::MaxOfLanes(d, v_max));
  const auto shift = hn::Set(d, max);
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < kAttentionBlock; j += kLanes) {
    const auto weight = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    hn::StoreU(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  const float correction =
      hn::GetLane(hn::Exp(d, hn::Sub(hn::Set(d, state.max), shift)));
  state.total = state.total * correction + hn::GetLane(hn::SumOfLanes(d, sum));
  state.max = max;
  if (correction == 1.0f) return;
  const int64_t dim = args.ValueDim();
  for (int64_t i = 0; i < dim; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + i), hn::Set(d, correction)), d,
               sums + i);
  }
}

// Joins the next span to the spans before it: `before` and `sums` become those
// of all of them.
inline void Join(const State& next, const float* next_sums, int64_t dim,
                 State& before, float* sums) {
  if (next.max == kNone) return;  // it saw nothing
  if (before.max == kNone) {
    before = next;
    std::copy_n(next_sums, dim, sums);
    return;
  }
  const AttentionTag d;
  const float max = std::max(before.max, next.max);
  const auto factor_of = [&](float old) {
    return hn::GetLane(hn::Exp(d, hn::Set(d, old - max)));
  };
  const float old_factor = factor_of(before.max);
  const float new_factor = factor_of(next.max);
  before = {max, before.total * old_factor + next.total * new_factor};
  for (int64_t i = 0; i < dim; i += kLanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, sums + i), hn::Set(d, old_factor));
    hn::StoreU(
        hn::MulAdd(hn::LoadU(d, next_sums + i), hn::Set(d, new_factor), scaled),
        d, sums + i);
  }
}

// Moves queries on to the span that `block` belongs to.
inline void BeginBlock(int64_t block, int64_t dim, Query* queries,
                       int64_t n_queries, const AttentionScratch& scratch) {
  for (int64_t i = 0; i < n_queries; ++i) {
    Query& query = queries[i];
    const int64_t span = block / query.blocks.span_blocks;
    if (span == query.span) continue;
    float* sums = scratch.sums + i * dim;
    Join(query.now, sums, dim, query.before, scratch.totals + i * dim);
    query.now = {};
    query.span = span;
    std::fill_n(sums, dim, 0.0f);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
