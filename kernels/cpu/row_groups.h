// The layout of packed rows that MatMulMany multiplies. Rows that share a
// register block are a group. A group of n rows has its rows' columns side by
// side, one block of 32 columns after another, in the order in which they are
// read:
//   int16 values[n][32], float scales[n], float sums[n],
//   int32 cross products[n][2]
// The numbers and their total bytes are those of packed_row.h.
#ifndef PLIMSOLL_KERNELS_CPU_ROW_GROUPS_H_
#define PLIMSOLL_KERNELS_CPU_ROW_GROUPS_H_

#include <algorithm>
#include <cstdint>

#include "base/checked_math.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/target.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels::cpu {

inline constexpr int64_t kGroupRows = 6;

// Byte offsets inside a group's block of 32 columns.
constexpr int64_t GroupScalesOffset(int64_t n) {
  return n * kActivationBlock * 2;
}
constexpr int64_t GroupSumsOffset(int64_t n) {
  return GroupScalesOffset(n) + n * 4;
}
constexpr int64_t GroupCrossOffset(int64_t n) {
  return GroupSumsOffset(n) + n * 4;
}

// Cuts rows into the fewest groups. Their sizes differ by one at most, and the
// larger groups come first.
class RowGroups {
 public:
  // `n_rows` is at least 1.
  explicit RowGroups(int64_t n_rows)
      : n_(CeilDiv(n_rows, kGroupRows)),
        smaller_(n_rows / n_),
        n_larger_(n_rows % n_) {}

  int64_t n() const { return n_; }
  int64_t RowsOf(int64_t group) const {
    return smaller_ + (group < n_larger_ ? 1 : 0);
  }
  // The first row of a group. RowAt(n()) is the number of rows.
  int64_t RowAt(int64_t group) const {
    return group * smaller_ + std::min(group, n_larger_);
  }
  int64_t GroupOf(int64_t row) const {
    const int64_t in_larger = n_larger_ * (smaller_ + 1);
    return row < in_larger ? row / (smaller_ + 1)
                           : n_larger_ + (row - in_larger) / smaller_;
  }

 private:
  int64_t n_;
  int64_t smaller_;
  int64_t n_larger_;
};

// True if a product of `n_rows` rows uses groups. Packing and multiplying both
// call this, so that they agree.
inline bool IsGrouped(int64_t n_rows) {
  return UsesVnni512() && n_rows >= kMinManyRows;
}

// Where a block of a packed row is, in bytes from the first of all packed rows,
// and the distance to the row's next block.
struct BlockPlace {
  int64_t values;
  int64_t scale;
  int64_t sum;
  int64_t cross;
  int64_t to_next_values;
  int64_t to_next_number;
  int64_t to_next_cross;
};

// Blocks [begin, end) of a row that is packed; `x` is the first of them.
struct BlocksOfRow {
  int64_t row;
  int64_t begin;
  int64_t end;
  const float* x;
};

inline BlockPlace PlaceInRow(int64_t dim, int64_t row, int64_t block) {
  const int64_t at = row * PackedRowBytes(dim);
  return {.values = at + block * kActivationBlock * 2,
          .scale = at + PackedScalesOffset(dim) + block * 4,
          .sum = at + PackedSumsOffset(dim) + block * 4,
          .cross = at + PackedCrossOffset(dim) + block * 8,
          .to_next_values = kActivationBlock * 2,
          .to_next_number = 4,
          .to_next_cross = 8};
}

inline BlockPlace PlaceInGroup(int64_t dim, const RowGroups& groups,
                               int64_t row, int64_t block) {
  const int64_t group = groups.GroupOf(row);
  const int64_t first = groups.RowAt(group);
  const int64_t n = groups.RowsOf(group);
  const int64_t stride = n * kActivationBlockBytes;
  const int64_t at = first * PackedRowBytes(dim) + block * stride;
  const int64_t m = row - first;
  return {.values = at + m * kActivationBlock * 2,
          .scale = at + GroupScalesOffset(n) + m * 4,
          .sum = at + GroupSumsOffset(n) + m * 4,
          .cross = at + GroupCrossOffset(n) + m * 8,
          .to_next_values = stride,
          .to_next_number = stride,
          .to_next_cross = stride};
}

// Rows of one packing task: whole groups where rows are grouped, so that two
// threads seldom write the same cache line.
inline int64_t PackingGrain(int64_t n_rows, int64_t grain) {
  return IsGrouped(n_rows) ? CeilDiv(grain, kGroupRows) * kGroupRows : grain;
}

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_ROW_GROUPS_H_
