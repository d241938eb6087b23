// How the CPU backend stores weight matrices: panels of 16 rows. A matrix in
// the file's order (WeightOrder::kFile) is packed while it is read, a part of a
// panel at a time (pack_rows.cc). For few activation rows, most types are
// multiplied as they are (file_sums-inl.h).
//
// A panel holds the same bytes as 16 rows of the file, permuted so that lane r
// of a vector is row r. It is a sequence over the columns of blocks:
//
//   Q8_0  f16 d[16]; i8 q[16][16][2]           q[p][r] = columns 2p, 2p + 1
//   Q4_0  f16 d[16]; nibbles
//   Q4_1  f16 d[16]; f16 m[16]; nibbles
//   Q5_0  f16 d[16]; fifths; nibbles
//   Q5_1  f16 d[16]; f16 m[16]; fifths; nibbles
//   Q4_K  f16 d[16]; f16 dmin[16]; u8 scales[12][16]; 8 x nibbles
//   Q5_K  f16 d[16]; f16 dmin[16]; u8 scales[12][16]; 8 x {fifths; nibbles}
//   Q6_K  f16 d[16]; i8 scales[16][16]; 8 x {nibbles; highs}
//   MXFP4   u8 e[16]; nibbles
//   NVFP4   u8 scales[4][16]; 2 x nibbles
//   IQ4_NL  f16 d[16]; nibbles
//   IQ4_XS  f16 d[16]; u16 scales_h[16]; u8 scales_l[4][16]; 8 x nibbles
//   Q3_K  f16 d[16]; u8 scales[12][16]; 8 x {fifths; highs}: the third bits are
//         where others have the fifth ones. The six-bit scales are stored as
//         Q4_K stores a scale and a minimum: those of columns 0..15 of each 32,
//         and those of columns 16..31.
//   Q2_K  f16 d[16]; f16 dmin[16]; u8 scales[16][16]; 8 x highs
//   TQ1_0   f16 d[16]; u8 digits[26][16][2]    two bytes of the file each
//   TQ2_0   f16 d[16]; 8 x highs
//   IQ1, IQ2, IQ3  f16 d[16], if there is one; u8 b[n][16];
//         8 x u32 words[n][16]    as GridForm (quant/grid_form.h) has them
//   F32, F16, BF16  one column: [16]
//
// A matrix that IsSplit has the high parts of all panels first, then the low
// parts of all panels, where q = 16 high + low and 0 <= low < 16:
//
//   Q8_0  high  f16 d[16]; nibbles, in two's complement
//         low   nibbles
//
// nibbles (32 columns) = u8 n[8][16][2]: the low nibble of n[p][r][w] is column
// 2p + w, the high one column 16 + 2p + w.
// highs (32 columns) = u8 h[4][16][2]: bits 2t, 2t + 1 of h[p][r][w] are two
// bits of column 2 (p + 4t) + w, the top ones where there are others. fifths
// (32 columns) = u32 f[16]: bit 2r + w of f[p] is the fifth bit of column 2p +
// w.
#ifndef PLIMSOLL_KERNELS_CPU_PACK_WEIGHTS_H_
#define PLIMSOLL_KERNELS_CPU_PACK_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels::cpu {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kNibblesBytes = int64_t{8} * 16 * 2;
inline constexpr int64_t kFifthsBytes = int64_t{16} * 4;
inline constexpr int64_t kHighsBytes = int64_t{4} * 16 * 2;
// Bytes of the high part of 32 columns of split Q8_0.
inline constexpr int64_t kHighBlockBytes = 32 + kNibblesBytes;

// True if the first half of a matrix's bytes is enough to bound its outputs
// (mat_mul_top.cc). This holds for vocabulary tables, where most outputs are
// not read.
inline constexpr int64_t kMinSplitRows = int64_t{1} << 15;
inline constexpr int64_t kMaxSplitCols = 8192;
constexpr bool IsSplit(DType dtype, int64_t rows, int64_t cols) {
  return dtype == DType::kQ8_0 && rows >= kMinSplitRows &&
         cols <= kMaxSplitCols;
}
constexpr bool IsSplit(const WeightMatrix& w) {
  return w.order == WeightOrder::kPacked && IsSplit(w.dtype, w.rows, w.cols);
}

// Bytes from the beginning of a matrix to the parts of one panel.
struct PanelOffsets {
  int64_t blocks;  // to its high parts, if the matrix is split
  int64_t low;     // to its low parts; 0 if it is not split
};
PanelOffsets FindPanel(DType dtype, int64_t rows, int64_t cols, int64_t panel);

// The rows of a panel in the file's order, one after another. If there are
// fewer than 16, the last one stands for those that are missing.
struct PanelRows {
  const uint8_t* first = nullptr;
  int64_t row_bytes = 0;
  int64_t n_rows = 0;
};

// A panel to read.
struct PanelData {
  DType dtype;
  const uint8_t* blocks;  // null in the file's order
  const uint8_t* low;     // null if its matrix is not split
  PanelRows rows = {};    // in the file's order

  bool IsInFileOrder() const { return rows.first != nullptr; }
};
PanelData PanelOf(const WeightMatrix& w, int64_t panel);

// A panel with row `row`, and which of its rows this is. In the file's order it
// has no other row.
struct RowPlace {
  PanelData panel;
  int64_t lane;
};
RowPlace FindRow(const WeightMatrix& w, int64_t row);

// Writes the `i`-th panel of some rows to its place in their matrix. The last
// row stands for rows that the panel lacks. `rows` must be what ValidateRows
// takes.
void PackPanel(const WeightRows& rows, int64_t i, std::byte* matrix);

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_PACK_WEIGHTS_H_
