// Rows of a table, dequantised and scaled.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/get_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// Decodes all 16 rows of the panel and keeps one: a token reads few columns,
// and so there is one decoder for products and for gathering.
void GetRowsRange(const GetRowsArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.table.cols;
  HWY_ALIGN float tile[32 * kPanelRows];
  SliceBuffer buffer;
  for (int64_t r = begin; r < end; ++r) {
    const RowPlace row = FindRow(args.table, args.tokens[r]);
    PanelData slice;
    for (int64_t c = 0; c < cols; c += 32) {
      if (c % kSliceColumns == 0) slice = SliceOf(row.panel, c / 32, buffer);
      const int64_t n = std::min<int64_t>(32, cols - c);
      const float* w = DecodeTile(slice, c % kSliceColumns / 32, n, tile);
      float* out = args.out + r * cols + c;
      for (int64_t i = 0; i < n; ++i) {
        const float value = w[i * kPanelRows + row.lane] * args.scale;
        out[i] = args.accumulate ? out[i] + value : value;
      }
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(GetRowsRange);

void GetRows(const GetRowsArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.n_rows, 8, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(GetRowsRange)(args, begin, end);
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
