// Reads panels of which only the file's order may be there, slice by slice.
// Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_PACK_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_PACK_ROWS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_PACK_ROWS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_PACK_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/cpu/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// A block of each of a panel's 16 rows.
struct RowBlocks {
  const uint8_t* rows[kPanelRows];
  int64_t at;  // from the begin of a row to its block

  const uint8_t* operator[](int64_t r) const { return rows[r] + at; }
};

// The blocks `at` bytes from the begins of rows.
inline RowBlocks BlocksOf(const PanelRows& rows, int64_t at) {
  RowBlocks block = {{}, at};
  for (int64_t r = 0; r < kPanelRows; ++r) {
    block.rows[r] = rows.first + std::min(r, rows.n_rows - 1) * rows.row_bytes;
  }
  return block;
}

// A panel's block of a type that has a decoder of rows begins with at most this
// many bytes of scales. It is a multiple of the bytes of a vector.
constexpr int64_t kMostScaleBytes = 320;

// These are in pack_rows.cc.
// Packs blocks [first, first + n) of rows in the file's order, in the form of a
// matrix that is not split.
void PackBlocks(DType dtype, const PanelRows& rows, int64_t first, int64_t n,
                uint8_t* out);
// Packs the scales of `n` blocks as a panel has them, and kMostScaleBytes from
// those of one block to those of the next.
void PackScales(DType dtype, RowBlocks blocks, int64_t n, uint8_t* out);
// Packs blocks [0, n) of rows of Q8_0 in the form of a matrix that is split.
void PackSplitBlocks(const PanelRows& rows, int64_t n, uint8_t* high,
                     uint8_t* low);

// A panel is read in slices of this many columns, which are whole blocks of any
// type.
constexpr int64_t kSliceColumns = 256;
constexpr int64_t kSliceBlocks = kSliceColumns / 32;

// Room for a slice of a panel of any type.
struct SliceBuffer {
  HWY_ALIGN uint8_t bytes[kSliceColumns * kPanelRows * 4];
};

// Prefetches slice `slice` of `n_slices` of the next panel, while the same
// slice of this panel is packed. In the file, the next panel lies directly
// behind this one.
HWY_INLINE void PrefetchNextPanel(const PanelRows& rows, int64_t slice,
                                  int64_t n_slices) {
  const int64_t bytes = rows.row_bytes * kPanelRows;
  const uint8_t* const next = rows.first + bytes;
  PrefetchToSecondCache(next + bytes * slice / n_slices,
                        next + bytes * (slice + 1) / n_slices);
}

// Returns the columns from 32 s on as a panel whose first column is 32 s. `s`
// is a multiple of kSliceBlocks. Rows in the file's order are packed to `to`,
// one slice at most; of other panels all columns are there.
HWY_INLINE PanelData SliceOf(const PanelData& panel, int64_t s,
                             SliceBuffer& to) {
  if (s == 0 && !panel.IsInFileOrder()) return panel;
  const DTypeInfo& info = InfoOf(panel.dtype);
  const int64_t first = s * 32 / info.block_elems;
  PanelData slice = panel;
  if (!panel.IsInFileOrder()) {
    const bool is_split = panel.low != nullptr;
    slice.blocks +=
        first * (is_split ? kHighBlockBytes : info.block_bytes * kPanelRows);
    if (is_split) slice.low += s * kNibblesBytes;
    return slice;
  }
  const PanelRows& rows = panel.rows;
  const int64_t n_blocks = rows.row_bytes / info.block_bytes;
  const int64_t n = kSliceColumns / info.block_elems;
  if (rows.n_rows == kPanelRows) {
    PrefetchNextPanel(rows, first / n, CeilDiv(n_blocks, n));
  }
  PackBlocks(panel.dtype, rows, first, std::min(n, n_blocks - first), to.bytes);
  return {panel.dtype, to.bytes, nullptr, {}};
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
