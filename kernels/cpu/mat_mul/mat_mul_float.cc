// Float32 products: weights dequantised tile by tile, exactly, each output a
// chain of multiply-adds over the columns in order.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/mat_mul_float.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr int kBlockRows = kLanes == 16 ? 8 : (kLanes == 8 ? 4 : 2);
// Rows that share one decoded tile; their sums stay in the first-level cache.
constexpr int64_t kTileRows = 64;

// sums[kRows][16] += x[kRows][n] * tile[n][16].
template <int kRows>
void MultiplyTile(const float* tile, int64_t n, const float* x,
                  int64_t x_stride, float* sums) {
  Rows acc[kRows];
  for (int m = 0; m < kRows; ++m) acc[m] = LoadRows(sums + m * kPanelRows);
  for (int64_t c = 0; c < n; ++c) {
    const Rows w = LoadRows(tile + c * kPanelRows);
    for (int m = 0; m < kRows; ++m) AddScaled(w, x[m * x_stride + c], acc[m]);
  }
  for (int m = 0; m < kRows; ++m) StoreRows16(acc[m], sums + m * kPanelRows);
}

// `n` rows of x, which begin every `stride` floats.
struct InputRows {
  const float* x;
  int64_t stride;
  int64_t n;
};

// sums[rows.n][16] += rows[rows.n][n] * tile[n][16].
template <int kRows>
void MultiplyTileRows(const float* tile, int64_t n, InputRows rows,
                      float* sums) {
  for (; rows.n >= kRows; rows.n -= kRows) {
    MultiplyTile<kRows>(tile, n, rows.x, rows.stride, sums);
    rows.x += kRows * rows.stride;
    sums += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (rows.n > 0) MultiplyTileRows<kRows / 2>(tile, n, rows, sums);
  }
}

}  // namespace

// Rows of x begin every `x_stride` floats, rows of out every `out_stride`.
void MatMulFloatPanels(const MatMulArgs& args, int64_t x_stride,
                       int64_t out_stride, int64_t begin, int64_t end) {
  const int64_t cols = args.w.cols;
  const float scale = args.w.HostScale();
  HWY_ALIGN float tile[32 * kPanelRows];
  HWY_ALIGN float sums[kTileRows * kPanelRows];
  SliceBuffer buffer;
  for (int64_t first = 0; first < args.n_rows; first += kTileRows) {
    const int64_t n_rows = std::min(kTileRows, args.n_rows - first);
    for (int64_t p = begin; p < end; ++p) {
      const PanelData panel = PanelOf(args.w, p);
      std::fill_n(sums, n_rows * kPanelRows, 0.0f);
      PanelData slice;
      for (int64_t c = 0; c < cols; c += 32) {
        if (c % kSliceColumns == 0) slice = SliceOf(panel, c / 32, buffer);
        const int64_t n = std::min<int64_t>(32, cols - c);
        const float* w = DecodeTile(slice, c % kSliceColumns / 32, n, tile);
        MultiplyTileRows<kBlockRows>(w, n,
                                     {.x = args.x + first * x_stride + c,
                                      .stride = x_stride,
                                      .n = n_rows},
                                     sums);
      }
      const int64_t n_valid =
          std::min(kPanelRows, args.w.rows - p * kPanelRows);
      for (int64_t m = 0; m < n_rows; ++m) {
        float* out = args.out + (first + m) * out_stride + p * kPanelRows;
        for (int64_t r = 0; r < n_valid; ++r) {
          const float sum = sums[m * kPanelRows + r] * scale;
          out[r] = args.accumulate ? out[r] + sum : sum;
        }
      }
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MatMulFloatPanels);

void MatMulFloat(const MatMulArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(MatMulFloatPanels)
  (args, args.w.cols, args.w.rows, begin, end);
}

void MatMulFloat(const MatMulArgs& args, ThreadPool& pool) {
  const int64_t n_panels = Panels(args.w);
  const int64_t grain =
      std::clamp<int64_t>(n_panels / (pool.n_threads() * 4), 1, 16);
  pool.ParallelFor(n_panels, grain, [&](int64_t begin, int64_t end, int) {
    MatMulFloat(args, begin, end);
  });
}

void HeadMatMul(const HeadMatMulArgs& args, ThreadPool& pool) {
  const int64_t n_panels = Panels(args.w.first);
  const int64_t n = args.n_heads * n_panels;
  const int64_t grain = std::clamp<int64_t>(n / (pool.n_threads() * 4), 1, 16);
  const auto multiply = [&](int64_t head, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(MatMulFloatPanels)
    ({.w = args.w.Of(head),
      .x = args.x + head * args.x_stride,
      .packed = nullptr,
      .out = args.out + head * args.out_stride,
      .n_rows = args.n_rows,
      .accumulate = false},
     args.n_heads * args.x_stride, args.n_heads * args.out_stride, begin, end);
  };
  pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t head = begin / n_panels;
      const int64_t first = begin % n_panels;
      const int64_t last = std::min(n_panels, first + end - begin);
      multiply(head, first, last);
      begin += last - first;
    }
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
