// Integer products: quantised weight panels times packed activations.
//
// Lanes are the 16 rows of a panel. Inside a block everything is an integer
// sum; between blocks every output sees the same float operations in the same
// order, whatever the number of activation rows in the register block.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/mat_mul.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "kernels/cpu/mat_mul/block_sums-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/file_sums-inl.h"
#include "kernels/cpu/mat_mul/pairs-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/cpu/target.h"
#include "kernels/quant/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace {

// Adds a task's columns, which Source reads, to its sums.
template <class Decoder, class Source, int kRows>
void MultiplyPanel(const PanelTask& task) {
  const int64_t row_bytes = PackedRowBytes(task.cols);
  const uint8_t* packed = task.packed + task.first * 64;
  const uint8_t* scales_at =
      task.packed + PackedScalesOffset(task.cols) + task.first * 4;
  const uint8_t* sums_at =
      task.packed + PackedSumsOffset(task.cols) + task.first * 4;
  Rows acc[kRows];
  for (int m = 0; m < kRows; ++m) acc[m] = LoadRows(task.sums + m * kPanelRows);
  typename Source::template Sums<Decoder, kRows> sums_of_blocks(task);
  for (int64_t s = 0; s < task.n_blocks; ++s) {
    const auto at = sums_of_blocks.At(s);
    BlockSums<kRows> sums;
    sums_of_blocks.Get(s, at, sums);
    Scales scales;
    Decoder::LoadScales(at, scales);
    for (int m = 0; m < kRows; ++m) {
      const float scale = LoadFloat(scales_at + m * row_bytes + s * 4);
      AddSums(sums[m][0], scales.d[0], scale, acc[m]);
      if constexpr (Decoder::kHasHalfScales) {
        AddSums(sums[m][1], scales.d[1], scale, acc[m]);
      }
      if constexpr (Decoder::kHasMin && Decoder::kHasHalfScales) {
        const uint8_t* values = packed + m * row_bytes + s * 64;
        AddScaled(scales.m[0], HalfSum(values, scale), acc[m]);
        AddScaled(scales.m[1], HalfSum(values + 32, scale), acc[m]);
      } else if constexpr (Decoder::kHasMin) {
        AddScaled(scales.m[0], LoadFloat(sums_at + m * row_bytes + s * 4),
                  acc[m]);
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    StoreRows16(acc[m], task.sums + m * kPanelRows);
  }
}

// Multiplies rows [0, n_rows) in register blocks of kRows, then in smaller
// ones.
template <class Decoder, class Source, int kRows>
void MultiplyRows(PanelTask task, int64_t n_rows) {
  for (; n_rows >= kRows; n_rows -= kRows) {
    MultiplyPanel<Decoder, Source, kRows>(task);
    task.packed += kRows * PackedRowBytes(task.cols);
    task.sums += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (n_rows > 0) MultiplyRows<Decoder, Source, kRows / 2>(task, n_rows);
  }
}

// task.sums = a panel times `n_rows` packed rows. A panel in the file's order
// is read slice by slice, each slice once for all rows.
template <class Decoder, class Source>
void MultiplyAllColumns(const PanelData& panel, int64_t n_rows,
                        PanelTask& task) {
  typename Source::template Reader<Decoder> reader(panel);
  const int64_t n_blocks = task.cols / 32;
  const int64_t step = panel.IsInFileOrder() ? kSliceBlocks : n_blocks;
  std::fill_n(task.sums, n_rows * kPanelRows, 0.0f);
  for (int64_t s = 0; s < n_blocks; s += step) {
    task.first = s;
    task.n_blocks = std::min(step, n_blocks - s);
    reader.Read(s, task);
    MultiplyRows<Decoder, Source, Source::kBlockRows>(task, n_rows);
  }
}

// Multiplies panels [begin, end), with row tiles that stay in the second-level
// cache.
template <class Decoder, class Source>
void MultiplyPanels(const MatMulArgs& args, int64_t begin, int64_t end) {
  constexpr int64_t kTileRows = 64;
  HWY_ALIGN float sums[kTileRows * kPanelRows];
  PanelTask task = {};
  task.cols = args.w.cols;
  task.sums = sums;
  for (int64_t first = 0; first < args.n_rows; first += kTileRows) {
    const int64_t n_rows = std::min(kTileRows, args.n_rows - first);
    task.packed = reinterpret_cast<const uint8_t*>(args.packed) +
                  first * PackedRowBytes(args.w.cols);
    if (begin < end) Source::PrefetchPanel(PanelOf(args.w, begin));
    for (int64_t p = begin; p < end; ++p) {
      task.is_last = p + 1 == end;
      MultiplyAllColumns<Decoder, Source>(PanelOf(args.w, p), n_rows, task);
      const int64_t n_valid =
          std::min(kPanelRows, args.w.rows - p * kPanelRows);
      for (int64_t m = 0; m < n_rows; ++m) {
        StoreOut(LoadRows(sums + m * kPanelRows), args.w.HostScale(), n_valid,
                 args.accumulate,
                 args.out + (first + m) * args.w.rows + p * kPanelRows);
      }
    }
  }
}

}  // namespace

void MatMulPanels(const MatMulArgs& args, int64_t begin, int64_t end) {
  WithDecoder(args.w, [&](auto decoder) {
    using Decoder = decltype(decoder);
    if constexpr (requires { typename Decoder::Row; }) {
      if (ReadsFile(args)) {
        return MultiplyPanels<Decoder, FromFile>(args, begin, end);
      }
    }
#if PLIMSOLL_HAVE_AVX_VNNI
    if (Uses(PathExtra::kAvxVnni)) {
      return MultiplyPanels<Decoder, FromPanel<AvxVnniDot>>(args, begin, end);
    }
#endif
    MultiplyPanels<Decoder, FromPanel<PairDot>>(args, begin, end);
  });
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MatMulPanels);

namespace {

// True if the product may rule outputs out before it computes them.
bool LooksAtFew(const MatMulArgs& args) {
  return !args.top.empty() && args.n_rows <= kMaxTopRows &&
         args.w.scale == nullptr && IsSplit(args.w) &&
         std::all_of(
             args.top.begin(), args.top.end(),
             [](const TopOutputs& top) { return top.k <= kMaxCandidates; });
}

// Multiplies panels [begin, end), counted over all products.
void MultiplyRange(std::span<const MatMulArgs> products, int64_t begin,
                   int64_t end) {
  for (const MatMulArgs& args : products) {
    const int64_t n = Panels(args.w);
    if (begin < n) {
      if (args.n_rows >= kMinAmxRows && Uses(PathExtra::kAmx)) {
        MatMulAmx(args, begin, std::min(end, n));
      } else if (IsGrouped(args.n_rows)) {
        MatMulMany(args, begin, std::min(end, n));
      } else {
        HWY_DYNAMIC_DISPATCH(MatMulPanels)(args, begin, std::min(end, n));
      }
    }
    begin = std::max<int64_t>(begin - n, 0);
    end -= n;
    if (end <= 0) return;
  }
}

// Panels of a task. The first panel of a task is not prefetched while another
// is multiplied. If rows are read as they are in the file, that is many bytes,
// so a thread has two tasks.
int64_t GrainOf(std::span<const MatMulArgs> products, int64_t n_panels,
                int n_threads) {
  if (std::none_of(products.begin(), products.end(), ReadsFile)) {
    return PanelGrain(n_panels, 16, n_threads);
  }
  return std::max<int64_t>(n_panels / (n_threads * 4), 1) * 2;
}

// Runs integer products as one loop.
void MultiplyTogether(std::span<const MatMulArgs> products, ThreadPool& pool) {
  int64_t n_panels = 0;
  for (const MatMulArgs& args : products) n_panels += Panels(args.w);
  const int64_t grain = GrainOf(products, n_panels, pool.n_threads());
  pool.ParallelFor(n_panels, grain, [&](int64_t begin, int64_t end, int) {
    MultiplyRange(products, begin, end);
  });
}

}  // namespace

void MatMulPanels(const MatMulArgs& args, int64_t begin, int64_t end) {
  if (!IsInteger(args)) return MatMulFloat(args, begin, end);
  MultiplyRange({&args, 1}, begin, end);
}

void MatMuls(std::span<const MatMulArgs> products, ThreadPool& pool,
             TopList* scratch) {
  const auto is_alone = [](const MatMulArgs& args) {
    return !IsInteger(args) || LooksAtFew(args);
  };
  if (std::none_of(products.begin(), products.end(), is_alone)) {
    return MultiplyTogether(products, pool);
  }
  for (const MatMulArgs& args : products) {
    if (!IsInteger(args)) {
      MatMulFloat(args, pool);
    } else if (LooksAtFew(args)) {
      MatMulTop(args, pool, scratch);
    } else {
      MultiplyTogether({&args, 1}, pool);
    }
  }
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
