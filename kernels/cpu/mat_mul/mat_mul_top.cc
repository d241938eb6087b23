// Products of which only the largest outputs are read, by a matrix that is
// split (pack_weights.h). The high parts of most outputs rule them out, so most
// low parts are never read.
//
// With q = 16 high + low and 0 <= low <= 15, the low parts of 32 columns with
// scale d add d * sum(low a) <= 7.5 (d * sum(a) + |d| * sum(|a|)). An output is
// ruled out if its high parts and these bounds stay below the k-th largest that
// is known. Otherwise the low parts' true sums replace the bounds, a quarter of
// the columns at a time, those with the largest activations first. The outputs
// that are left in the end are computed as MatMul computes them.
//
// The product is bound by memory. The pass over the high parts reads 18 of 34
// bytes. A greedy step of gemma3-270m, most of which is this product, reads
// what it must at some nine tenths of the read bandwidth (2 cores of a Zen 5).
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/mat_mul_top.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "hwy/cache_control.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pairs-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/quant/packed_row.h"

// All instruction paths share what follows.
#ifndef PLIMSOLL_KERNELS_CPU_MAT_MUL_TOP_ONCE_
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_TOP_ONCE_
namespace plimsoll::kernels::cpu {

// A thread bounds this many panels before it looks at low parts, so that these
// have been prefetched by then.
inline constexpr int64_t kTopGroup = 16;
inline constexpr int64_t kTopStages = 4;

// Rounding errors are below this share of what the bounds add (the sum of |d| *
// 7.5 sum(|a|)): those of the bounds, from six operations for each of 256
// blocks on sums of up to 143 / 7.5 of it, and those of the outputs.
inline constexpr float kTopSlack = 0x1p-8f;

// The bound below which an output stays below `least` once both are soft-capped
// in float32. A cap brings large outputs together, and among equal ones the
// lowest id counts.
inline float LeastBeforeCap(float least, float cap) {
  if (cap == 0 || !std::isfinite(least)) return least;
  constexpr double kSlack = 0x1p-18;  // tanh in float32 is off by less
  const double capped = std::tanh(double{least} / cap) - kSlack;
  if (capped <= -1) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(cap * std::atanh(capped));
}

// One row of activations of the product.
struct TopRow {
  static constexpr int64_t kMaxBlocks = kMaxSplitCols / 32;

  MatMulArgs product;         // product of this row alone
  int64_t k;                  // outputs that are read
  float middle[kMaxBlocks];   // 7.5 sum(a)
  float reach[kMaxBlocks];    // 7.5 sum(|a|)
  int32_t order[kMaxBlocks];  // blocks, largest reach first
  // The largest of all threads' k-th largest outputs.
  std::atomic<float> least;
  // Panels that were bounded, and what was read of their weights for it and for
  // the outputs that were left, in bytes for each weight block of 32 columns.
  std::atomic<int64_t> n_bounded;
  std::atomic<int64_t> n_read;

  // False if bounds took more than three quarters of the reading that the
  // product takes, in an eighth of the panels or more.
  bool PaysOff() const {
    const int64_t n = n_bounded.load(std::memory_order_relaxed);
    return n * 8 < Panels(product.w) ||
           n_read.load(std::memory_order_relaxed) * 4 <= n * kBlockBytes * 3;
  }
  static constexpr int64_t kBlockBytes = 34;
  static constexpr int64_t kHighBytes = 18;
  static constexpr int64_t kStageBytes =
      (kBlockBytes - kHighBytes) / kTopStages;
};

}  // namespace plimsoll::kernels::cpu
#endif  // PLIMSOLL_KERNELS_CPU_MAT_MUL_TOP_ONCE_

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

void MatMulPanels(const MatMulArgs& args, int64_t begin, int64_t end);

namespace {

const uint8_t* Values(const TopRow& row) {
  return reinterpret_cast<const uint8_t*>(row.product.packed);
}

float ScaleOf(const TopRow& row, int64_t s) {
  return LoadFloat(Values(row) + PackedScalesOffset(row.product.w.cols) +
                   s * 4);
}

// acc += factor * |a|.
HWY_INLINE void AddMagnitudes(const Rows& a, float factor, Rows& acc) {
  const VF f = hn::Set(DF(), factor);
  for (size_t j = 0; j < kVecs; ++j) {
    acc.v[j] = hn::MulAdd(hn::Abs(a.v[j]), f, acc.v[j]);
  }
}

// Integer sums of the 32 columns of block `s`, whose pairs decode(i, low, high)
// gives as a decoder does.
template <class Decode>
HWY_INLINE RowSums SumBlock(const TopRow& row, int64_t s,
                            const Decode& decode) {
  RowSums sums = ZeroSums();
  RowSums more = ZeroSums();
  PLIMSOLL_UNROLL_PAIRS
  for (int i = 0; i < 8; ++i) {
    Pairs low;
    Pairs high;
    decode(i, low, high);
    const uint8_t* a = Values(row) + s * 64 + i * 4;
    AddPairs(low, a, sums);
    AddPairs(high, a + 32, more);
  }
  for (size_t j = 0; j < kVecs; ++j) sums.v[j] = hn::Add(sums.v[j], more.v[j]);
  return sums;
}

// Upper bounds of a panel's outputs, from its high parts.
HWY_INLINE Rows BoundPanel(const TopRow& row, const PanelData& panel) {
  constexpr int64_t kAheadBytes = 4096;
  const int64_t n_blocks = row.product.w.cols / 32;
  Rows bounds = ZeroRows();
  for (int64_t s = 0; s < n_blocks; ++s) {
    const uint8_t* high = panel.blocks + s * kHighBlockBytes;
    for (int64_t i = 0; i < kHighBlockBytes; i += 64) {
      hwy::Prefetch(high + kAheadBytes + i);
    }
    const RowSums sums =
        SumBlock(row, s, [high](int i, Pairs& first, Pairs& second) {
          DecodeHighNibbles(high + 32, i, first, second);
        });
    const Rows d = LoadF16(high);
    AddSums(sums, d, ScaleOf(row, s), bounds);
    AddScaled(d, row.middle[s], bounds);
    AddMagnitudes(d, row.reach[s] * (1.0f + kTopSlack), bounds);
  }
  return bounds;
}

// Replaces the bounds of block `s` by what its low parts add.
HWY_INLINE void AddLowNibbles(const TopRow& row, const PanelData& panel,
                              int64_t s, Rows& bounds) {
  const uint8_t* low = panel.low + s * kNibblesBytes;
  const RowSums sums =
      SumBlock(row, s, [low](int i, Pairs& first, Pairs& second) {
        DecodeNibbles(low, i, first, second);
      });
  const Rows d = LoadF16(panel.blocks + s * kHighBlockBytes);
  AddSums(sums, d, ScaleOf(row, s), bounds);
  AddScaled(d, -row.middle[s], bounds);
  AddMagnitudes(d, -row.reach[s], bounds);
}

// Returns false if a bound is NaN, which rules nothing out.
HWY_INLINE bool AllBelow(const Rows& bounds, float least) {
  const VF v = hn::Set(DF(), least);
  bool all = true;
  for (size_t j = 0; j < kVecs; ++j) {
    all &= hn::AllTrue(DF(), hn::Lt(bounds.v[j], v));
  }
  return all;
}

// The blocks whose low parts stage `stage` looks at: [begin, end) of
// TopRow::order.
struct Stage {
  Stage(int64_t n_blocks, int64_t stage)
      : begin(n_blocks * stage / kTopStages),
        end(n_blocks * (stage + 1) / kTopStages) {}
  int64_t begin;
  int64_t end;
};

void PrefetchStage(const TopRow& row, const PanelData& panel, int64_t stage) {
  const Stage blocks(row.product.w.cols / 32, stage);
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    const uint8_t* low = panel.low + row.order[b] * kNibblesBytes;
    for (int64_t i = 0; i < kNibblesBytes; i += 64) hwy::Prefetch(low + i);
  }
}

}  // namespace

// Multiplies panels [begin, end), at most kTopGroup of them.
void MatMulTopGroup(TopRow& row, int64_t begin, int64_t end, TopList& list) {
  const WeightMatrix& w = row.product.w;
  // Relaxed: an older value rules out less.
  const float least = LeastBeforeCap(
      std::max(row.least.load(std::memory_order_relaxed), list.Least(row.k)),
      row.product.soft_cap);
  PanelData panels[kTopGroup];
  Rows bounds[kTopGroup];
  int64_t live[kTopGroup];  // panels that are not ruled out
  int64_t n_live = 0;
  int64_t n_read = (end - begin) * TopRow::kHighBytes;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t i = p - begin;
    panels[i] = PanelOf(w, p);
    bounds[i] = BoundPanel(row, panels[i]);
    if (AllBelow(bounds[i], least)) continue;
    live[n_live++] = i;
    PrefetchStage(row, panels[i], 0);
  }
  for (int64_t stage = 0; stage < kTopStages; ++stage) {
    const Stage blocks(w.cols / 32, stage);
    int64_t n_left = 0;
    n_read += n_live * TopRow::kStageBytes;
    for (int64_t l = 0; l < n_live; ++l) {
      const int64_t i = live[l];
      for (int64_t b = blocks.begin; b < blocks.end; ++b) {
        AddLowNibbles(row, panels[i], row.order[b], bounds[i]);
      }
      if (AllBelow(bounds[i], least)) continue;
      live[n_left++] = i;
      if (stage + 1 < kTopStages) PrefetchStage(row, panels[i], stage + 1);
    }
    n_live = n_left;
  }
  row.n_bounded.fetch_add(end - begin, std::memory_order_relaxed);
  row.n_read.fetch_add(n_read + n_live * TopRow::kBlockBytes,
                       std::memory_order_relaxed);
  const int64_t first_output = begin * kPanelRows;
  std::fill(row.product.out + first_output,
            row.product.out + std::min(end * kPanelRows, w.rows), kNotComputed);
  for (int64_t l = 0; l < n_live; ++l) {
    const int64_t p = begin + live[l];
    MatMulPanels(row.product, p, p + 1);
    const int64_t first = p * kPanelRows;
    for (int64_t r = first; r < std::min(first + kPanelRows, w.rows); ++r) {
      const float value = row.product.out[r];
      const auto id = static_cast<int32_t>(r);
      if (list.Takes(value, id, row.k)) list.Insert(value, id, row.k);
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MatMulTopGroup);
HWY_EXPORT(MatMulPanels);

namespace {

void Prepare(const MatMulArgs& args, int64_t m, TopRow& row) {
  const int64_t cols = args.w.cols;
  row.product = args;
  row.product.top = {};
  row.product.packed = args.packed + m * PackedRowBytes(cols);
  row.product.out = args.out + m * args.w.rows;
  row.product.n_rows = 1;
  row.k = args.top[static_cast<size_t>(m)].k;
  row.least.store(-std::numeric_limits<float>::infinity());
  row.n_bounded.store(0);
  row.n_read.store(0);
  const int64_t n_blocks = cols / 32;
  for (int64_t s = 0; s < n_blocks; ++s) {
    int32_t magnitude = 0;
    for (int64_t c = 0; c < 32; ++c) {
      int16_t value;
      std::memcpy(&value, row.product.packed + (s * 32 + c) * 2, 2);
      magnitude += std::abs(int32_t{value});
    }
    float scale;
    float sum;
    std::memcpy(&scale, row.product.packed + PackedScalesOffset(cols) + s * 4,
                4);
    std::memcpy(&sum, row.product.packed + PackedSumsOffset(cols) + s * 4, 4);
    row.middle[s] = 7.5f * sum;
    row.reach[s] = 7.5f * scale * static_cast<float>(magnitude);
  }
  std::iota(row.order, row.order + n_blocks, 0);
  // A NaN has no place in an order; what it touches is computed anyway.
  const auto reach = [&row](int32_t s) {
    return std::isnan(row.reach[s]) ? 0.0f : row.reach[s];
  };
  std::sort(row.order, row.order + n_blocks, [&](int32_t a, int32_t b) {
    return reach(a) != reach(b) ? reach(a) > reach(b) : a < b;
  });
}

void Raise(float value, std::atomic<float>& least) {
  float old = least.load(std::memory_order_relaxed);
  while (old < value &&
         !least.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
}

// `lists` has one list for each row.
void BoundRows(TopRow* rows, int64_t n_rows, int64_t begin, int64_t end,
               TopList* lists) {
  for (int64_t m = 0; m < n_rows; ++m) {
    if (!rows[m].PaysOff()) {
      HWY_DYNAMIC_DISPATCH(MatMulPanels)(rows[m].product, begin, end);
      continue;
    }
    HWY_DYNAMIC_DISPATCH(MatMulTopGroup)(rows[m], begin, end, lists[m]);
    Raise(lists[m].Least(rows[m].k), rows[m].least);
  }
}

}  // namespace

void MatMulTop(const MatMulArgs& args, ThreadPool& pool, TopList* scratch) {
  TopRow rows[kMaxTopRows];
  for (int64_t m = 0; m < args.n_rows; ++m) Prepare(args, m, rows[m]);
  for (int64_t i = 0; i < pool.n_threads() * kMaxTopRows; ++i) {
    scratch[i].n = 0;
  }
  const int64_t n_panels = Panels(args.w);
  pool.ParallelFor(
      n_panels, kTopGroup, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t p = begin; p < end; p += kTopGroup) {
          BoundRows(rows, args.n_rows, p, std::min(p + kTopGroup, end),
                    scratch + thread * kMaxTopRows);
        }
      });
  for (int64_t m = 0; m < args.n_rows; ++m) {
    const MatMulArgs& product = rows[m].product;
    for (const int32_t id : args.top[static_cast<size_t>(m)].always) {
      if (product.out[id] != kNotComputed) continue;
      const int64_t panel = id / kPanelRows;
      HWY_DYNAMIC_DISPATCH(MatMulPanels)(product, panel, panel + 1);
    }
  }
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
