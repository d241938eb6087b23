// Weights are packed once, at load, on the best instruction path.
#include "kernels/cpu/pack_weights.h"
//
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/pack_weights.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <span>

#include "base/checked_math.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

void PackPanelHere(DType dtype, const PanelRows& rows, bool is_split,
                   uint8_t* out, uint8_t* out_low) {
  const int64_t n_blocks = rows.row_bytes / InfoOf(dtype).block_bytes;
  if (is_split) return PackSplitBlocks(rows, n_blocks, out, out_low);
  PackBlocks(dtype, rows, 0, n_blocks, out);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(PackPanelHere);

namespace {

int64_t RowBytesOf(DType dtype, int64_t cols) {
  const DTypeInfo& info = InfoOf(dtype);
  return cols / info.block_elems * info.block_bytes;
}

// Rows [first, first + n) of a matrix in the file's order.
PanelData RowsOf(const WeightMatrix& w, int64_t first, int64_t n) {
  const int64_t row_bytes = RowBytesOf(w.dtype, w.cols);
  const auto* data = reinterpret_cast<const uint8_t*>(w.data);
  return {w.dtype, nullptr, nullptr, {data + first * row_bytes, row_bytes, n}};
}

}  // namespace

PanelOffsets FindPanel(DType dtype, int64_t rows, int64_t cols, int64_t panel) {
  if (!IsSplit(dtype, rows, cols)) {
    return {panel * RowBytesOf(dtype, cols) * kPanelRows, 0};
  }
  const int64_t n_blocks = cols / InfoOf(dtype).block_elems;
  const int64_t n_panels = CeilDiv(rows, kPanelRows);
  return {panel * n_blocks * kHighBlockBytes,
          (n_panels * kHighBlockBytes + panel * kNibblesBytes) * n_blocks};
}

PanelData PanelOf(const WeightMatrix& w, int64_t panel) {
  if (w.order == WeightOrder::kFile) {
    const int64_t first = panel * kPanelRows;
    return RowsOf(w, first, std::min(kPanelRows, w.rows - first));
  }
  const PanelOffsets at = FindPanel(w.dtype, w.rows, w.cols, panel);
  const auto* data = reinterpret_cast<const uint8_t*>(w.data);
  return {w.dtype, data + at.blocks, at.low == 0 ? nullptr : data + at.low};
}

RowPlace FindRow(const WeightMatrix& w, int64_t row) {
  if (w.order == WeightOrder::kFile) return {RowsOf(w, row, 1), 0};
  return {PanelOf(w, row / kPanelRows), row % kPanelRows};
}

void PackPanel(const WeightRows& rows, int64_t i, std::byte* matrix) {
  const PanelOffsets at = FindPanel(rows.dtype, rows.rows, rows.cols,
                                    rows.first_row / kPanelRows + i);
  const int64_t row_bytes = RowBytesOf(rows.dtype, rows.cols);
  const std::span<const std::byte> panel =
      rows.bytes.subspan(static_cast<size_t>(i * kPanelRows * row_bytes));
  const int64_t n_rows =
      std::min(kPanelRows, static_cast<int64_t>(panel.size()) / row_bytes);
  auto* const data = reinterpret_cast<uint8_t*>(matrix);
  HWY_DYNAMIC_DISPATCH(PackPanelHere)
  (rows.dtype,
   {reinterpret_cast<const uint8_t*>(panel.data()), row_bytes, n_rows},
   at.low != 0, data + at.blocks, data + at.low);
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
