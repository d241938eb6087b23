#include "kernels/cpu/experts/gather_rows.h"

#include <cstring>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels::cpu {
namespace {

// The packed rows of one operation.
class PackedRows {
 public:
  PackedRows(int64_t n_rows, int64_t dim)
      : dim_(dim), is_grouped_(IsGrouped(n_rows)), groups_(n_rows) {}

  bool is_grouped() const { return is_grouped_; }
  BlockPlace FirstBlock(int64_t row) const {
    return is_grouped_ ? PlaceInGroup(dim_, groups_, row, 0)
                       : PlaceInRow(dim_, row, 0);
  }

 private:
  int64_t dim_;
  bool is_grouped_;
  RowGroups groups_;
};

void CopyBlocks(const std::byte* from, BlockPlace at, std::byte* to,
                BlockPlace place, int64_t n_blocks) {
  const auto advance = [](BlockPlace& p) {
    p.values += p.to_next_values;
    p.scale += p.to_next_number;
    p.sum += p.to_next_number;
    p.cross += p.to_next_cross;
  };
  for (int64_t b = 0; b < n_blocks; ++b) {
    std::memcpy(to + place.values, from + at.values, kActivationBlock * 2);
    std::memcpy(to + place.scale, from + at.scale, 4);
    std::memcpy(to + place.sum, from + at.sum, 4);
    std::memcpy(to + place.cross, from + at.cross, 8);
    advance(at);
    advance(place);
  }
}

}  // namespace

void GatherFloats(const ExpertRows& rows, const RowCopy<float>& copy,
                  ThreadPool& pool) {
  pool.ParallelFor(rows.NumPlaces(), RowGrain(copy.dim),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t p = begin; p < end; ++p) {
                       std::memcpy(
                           copy.to + p * copy.dim,
                           copy.from + rows.rows[p] * copy.dim,
                           static_cast<size_t>(copy.dim) * sizeof(float));
                     }
                   });
}

void GatherPacked(const ExpertRows& rows, const ActiveExperts& active,
                  const RowCopy<std::byte>& copy, ThreadPool& pool) {
  const int64_t dim = copy.dim;
  const int64_t row_bytes = PackedRowBytes(dim);
  const PackedRows from(rows.n_rows, dim);
  const auto copy_range = [&](const ExpertGroup& group, int64_t first,
                              int64_t end) {
    const PackedRows to(group.n_rows, dim);
    std::byte* const group_out = copy.to + group.begin * row_bytes;
    for (int64_t i = first; i < end; ++i) {
      const int64_t row = rows.rows[group.begin + i];
      if (from.is_grouped() || to.is_grouped()) {
        CopyBlocks(copy.from, from.FirstBlock(row), group_out, to.FirstBlock(i),
                   dim / kActivationBlock);
      } else {
        std::memcpy(group_out + i * row_bytes, copy.from + row * row_bytes,
                    static_cast<size_t>(row_bytes));
      }
    }
  };
  pool.ParallelFor(rows.NumPlaces(), RowGrain(dim),
                   [&](int64_t begin, int64_t end, int) {
                     active.ForEachRange(begin, end, copy_range);
                   });
}

}  // namespace plimsoll::kernels::cpu
