// Each head's state, which every row changes and then reads. A task takes a
// tile of a head's state through all rows of one sequence; the tile stays in
// the first-level cache meanwhile.
//
// Prompts have no form of their own. If they were taken in chunks, as products
// of a chunk's rows with each other and with the state, a row of a gated delta
// net would need at best four fifths of the multiplications that it needs here
// (128 by 128, chunks of 16 rows), and its bits would depend on the borders of
// chunks. Measured on one core of a Zen 3: the scan of a prompt multiplies at
// 80 % of the peak rate of floats. The scan of one row moves states at 80 % of
// the rate of a plain loop that reads and writes them.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/state_scan.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <type_traits>

#include "base/checked_math.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/activate-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_sums-inl.h"
#include "kernels/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {

using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;

// Vectors of a tile's row. Their sums hide the latency of a multiply-add and
// stay in registers.
constexpr int64_t kLanes = hn::MaxLanes(Floats());
constexpr int64_t kVectors = kStateColumns / kLanes;

// Rows whose numbers are computed together.
constexpr int64_t kNumberRows = 16;

// A value for each column of a tile.
struct Columns {
  Vector of[kVectors];
};

// What rows do with the state S of a head, where k and q are not normed:
//   S = decay * S + k d^T, d = write * (v - expect * S^T k)
//   out = read * S^T q + skip * v
// A row of Mamba 2 expects nothing.
struct RowNumbers {
  float decay[kNumberRows];
  float expect[kNumberRows];
  float write[kNumberRows];
  float read[kNumberRows];
};

// log(1 + e^x)
template <class V>
HWY_INLINE V Softplus(Floats d, V x) {
  const V rest = hn::Exp(d, hn::Neg(hn::Abs(x)));
  return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, rest));
}

// The numbers of `n` rows from `row` on.
void FindNumbers(const StateScanArgs& args, int64_t head, int64_t row,
                 int64_t n, RowNumbers& numbers) {
  float dt[kNumberRows] = {};
  float beta[kNumberRows] = {};
  float k_norm[kNumberRows] = {};
  float q_norm[kNumberRows] = {};
  const bool has_delta = args.beta != nullptr;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = args.GateAt(row + i, head);
    dt[i] = args.dt[at] + args.dt_bias[head];
    if (!has_delta) continue;
    beta[i] = args.beta[at];
    const int64_t key = args.KeyAt(row + i, head);
    k_norm[i] = SumOfSquares(args.k + key, args.key_dim, /*mean=*/0);
    q_norm[i] = SumOfSquares(args.q + key, args.key_dim, /*mean=*/0);
  }
  const Floats d;
  const Vector one = hn::Set(d, 1.0f);
  const Vector eps = hn::Set(d, args.norm_eps);
  const Vector q_scale = hn::Set(d, args.q_scale);
  for (int64_t i = 0; i < kNumberRows; i += kLanes) {
    const Vector t = Softplus(d, hn::LoadU(d, dt + i));
    const Vector decay = hn::Exp(d, hn::Mul(t, hn::Set(d, args.rate[head])));
    hn::StoreU(decay, d, numbers.decay + i);
    if (!has_delta) {
      hn::StoreU(t, d, numbers.write + i);
      hn::StoreU(q_scale, d, numbers.read + i);
      continue;
    }
    const auto size = [&](const float* squares) HWY_ATTR {
      return hn::Sqrt(hn::Add(hn::LoadU(d, squares + i), eps));
    };
    const Vector k_scale = hn::Div(one, size(k_norm));
    hn::StoreU(hn::Mul(decay, k_scale), d, numbers.expect + i);
    hn::StoreU(hn::Mul(TimesSigmoid(d, one, hn::LoadU(d, beta + i)), k_scale),
               d, numbers.write + i);
    hn::StoreU(hn::Div(q_scale, size(q_norm)), d, numbers.read + i);
  }
}

HWY_INLINE Columns Zeros() {
  Columns columns;
  for (Vector& vector : columns.of) vector = hn::Zero(Floats());
  return columns;
}

// S^T k
HWY_INLINE Columns Read(const float* tile, const float* k, int64_t key_dim) {
  const Floats d;
  Columns sum = Zeros();
  for (int64_t i = 0; i < key_dim; ++i, tile += kStateColumns) {
    const Vector ki = hn::Set(d, k[i]);
    for (int64_t j = 0; j < kVectors; ++j) {
      sum.of[j] = hn::MulAdd(ki, hn::LoadU(d, tile + j * kLanes), sum.of[j]);
    }
  }
  return sum;
}

// What a row brings to a state.
struct RowInputs {
  float decay;
  const float* k;
  const float* q;
  const float* next_k;  // the next row's
  const Columns& written;
};

// Lets a row change the state: to = decay * from + k written^T, where `to` may
// be `from`. Returns S^T q. With kLooksAhead it also sets `ahead` to the values
// that the next row's key reads.
template <bool kLooksAhead>
HWY_INLINE Columns Advance(int64_t key_dim, const RowInputs& row_inputs,
                           const float* from, float* to, Columns& ahead) {
  const Floats d;
  const float* const k = row_inputs.k;
  const float* const q = row_inputs.q;
  const float* const next_k = row_inputs.next_k;
  const Columns& written = row_inputs.written;
  const Vector decays = hn::Set(d, row_inputs.decay);
  Columns sum = Zeros();
  Columns next = Zeros();
  for (int64_t i = 0; i < key_dim; ++i) {
    const int64_t row = i * kStateColumns;
    const Vector ki = hn::Set(d, k[i]);
    const Vector qi = hn::Set(d, q[i]);
    const Vector next_ki = kLooksAhead ? hn::Set(d, next_k[i]) : ki;
    for (int64_t j = 0; j < kVectors; ++j) {
      const int64_t at = row + j * kLanes;
      const Vector kept = hn::Mul(decays, hn::LoadU(d, from + at));
      const Vector s = hn::MulAdd(ki, written.of[j], kept);
      hn::StoreU(s, d, to + at);
      sum.of[j] = hn::MulAdd(qi, s, sum.of[j]);
      if (kLooksAhead) next.of[j] = hn::MulAdd(next_ki, s, next.of[j]);
    }
  }
  if (kLooksAhead) ahead = next;
  return sum;
}

// What a row does with a tile: it reads it at `from` and leaves it at `to`.
struct RowStep {
  int64_t row;
  bool has_next;  // whether a row follows
  const float* from;
  float* to;
};

// A tile of a head's state on its way through the rows of a segment.
class Tile {
 public:
  Tile(const StateScanArgs& args, const StateSegment& segment, int64_t head,
       int64_t tile)
      : args_(args),
        segment_(segment),
        head_(head),
        first_column_(tile * kStateColumns),
        n_columns_(args.TileColumns(tile)),
        at_(args.TileAt(head, tile)),
        ahead_(Zeros()) {}

  void Scan() {
    if (segment_.n_rows == 0) return;
    // A whole tile of the first state is read where it lies, and the last one
    // is written where it is kept.
    const float* from = Begin();
    if (has_delta()) {
      const float* const k = args_.k + args_.KeyAt(segment_.first_row, head_);
      ahead_ = Read(from, k, args_.key_dim);
    }
    RowNumbers numbers;
    for (int64_t i = 0; i < segment_.n_rows; ++i) {
      const int64_t row = segment_.first_row + i;
      const int64_t left = segment_.n_rows - i;
      if (i % kNumberRows == 0) {
        FindNumbers(args_, head_, row, std::min(kNumberRows, left), numbers);
      }
      const int32_t kept = args_.states.destinations[row];
      const bool is_in_place = kept != kNoState && left == 1 && is_whole();
      float* const to = is_in_place ? StateAt(kept) : own_;
      ScanRow({.row = row, .has_next = left > 1, .from = from, .to = to},
              numbers, i % kNumberRows);
      if (kept != kNoState && !is_in_place) Keep(StateAt(kept));
      from = to;
    }
  }

 private:
  bool has_delta() const { return args_.beta != nullptr; }
  bool is_whole() const { return n_columns_ == kStateColumns; }
  float* StateAt(int32_t index) const {
    return args_.states.data + index * args_.states.stride + at_;
  }

  // Returns where the tile of the first state is, with kStateColumns columns.
  const float* Begin() {
    const bool has_source = segment_.source != kNoState;
    if (has_source && is_whole()) return StateAt(segment_.source);
    std::fill_n(own_, args_.key_dim * kStateColumns, 0.0f);
    for (int64_t i = 0; i < args_.key_dim && has_source; ++i) {
      std::copy_n(StateAt(segment_.source) + i * n_columns_, n_columns_,
                  own_ + i * kStateColumns);
    }
    return own_;
  }

  void Keep(float* to) const {
    for (int64_t i = 0; i < args_.key_dim; ++i) {
      std::copy_n(own_ + i * kStateColumns, n_columns_, to + i * n_columns_);
    }
  }

  // Takes the tile through a row, whose numbers are at index `at`.
  void ScanRow(const RowStep& step, const RowNumbers& numbers, int64_t at) {
    const Floats d;
    const int64_t row = step.row;
    const bool has_next = step.has_next;
    float values[kStateColumns] = {};
    std::copy_n(args_.v + args_.ValueAt(row, head_) + first_column_, n_columns_,
                values);
    Columns written;
    for (int64_t j = 0; j < kVectors; ++j) {
      Vector v = hn::LoadU(d, values + j * kLanes);
      if (has_delta()) {
        v = hn::NegMulAdd(hn::Set(d, numbers.expect[at]), ahead_.of[j], v);
      }
      written.of[j] = hn::Mul(hn::Set(d, numbers.write[at]), v);
    }
    const int64_t key = args_.KeyAt(row, head_);
    const int64_t next_key = args_.KeyAt(has_next ? row + 1 : row, head_);
    const auto advance = [&](auto looks_ahead) HWY_ATTR {
      return Advance<decltype(looks_ahead)::value>(
          args_.key_dim,
          {.decay = numbers.decay[at],
           .k = args_.k + key,
           .q = args_.q + key,
           .next_k = args_.k + next_key,
           .written = written},
          step.from, step.to, ahead_);
    };
    const Columns sum = has_delta() && has_next ? advance(std::true_type())
                                                : advance(std::false_type());
    const float skip = args_.skip == nullptr ? 0.0f : args_.skip[head_];
    for (int64_t j = 0; j < kVectors; ++j) {
      float* const value = values + j * kLanes;
      const Vector skipped = hn::Mul(hn::Set(d, skip), hn::LoadU(d, value));
      hn::StoreU(hn::MulAdd(hn::Set(d, numbers.read[at]), sum.of[j], skipped),
                 d, value);
    }
    std::copy_n(values, n_columns_,
                args_.out + (row * args_.n_heads + head_) * args_.value_dim +
                    first_column_);
  }

  const StateScanArgs& args_;
  const StateSegment& segment_;
  const int64_t head_;
  const int64_t first_column_;
  const int64_t n_columns_;
  const int64_t at_;  // floats from a state to the tile
  Columns ahead_;     // S^T k of the next row, of a gated delta net
  alignas(64) float own_[kMaxStateKeyDim * kStateColumns];
};

}  // namespace

void ScanTile(const StateScanArgs& args, const StateSegment& segment,
              int64_t head, int64_t tile) {
  Tile(args, segment, head, tile).Scan();
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(ScanTile);

void StateScan(const StateScanArgs& args, ThreadPool& pool) {
  const int64_t n_tiles = CeilDiv(args.value_dim, kStateColumns);
  pool.ParallelFor(args.states.n_segments * args.n_heads * n_tiles, 1,
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t task = begin; task < end; ++task) {
                       const int64_t head = task / n_tiles;
                       HWY_DYNAMIC_DISPATCH(ScanTile)
                       (args, args.states.segments[head / args.n_heads],
                        head % args.n_heads, task % n_tiles);
                     }
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
