// Products with few activation rows and weights in the file's order, which are
// not packed. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/block_sums-inl.h"
#include "kernels/cpu/mat_mul/column_sums-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/cpu/mat_mul/quad_sums-inl.h"
#include "kernels/cpu/prefetch.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// Reads rows in the file's order as they are.
struct FromFile {
  static constexpr int kBlockRows = 4;

  // Prefetches a panel that is multiplied next.
  static HWY_INLINE void PrefetchPanel(const PanelData& panel) {
    const PanelRows& rows = panel.rows;
    PrefetchToSecondCache(rows.first,
                          rows.first + rows.n_rows * rows.row_bytes);
  }

  // Reads the slices of a panel.
  template <class Decoder>
  class Reader {
   public:
    explicit Reader(const PanelData& panel) : rows_(panel.rows) {}
    // Reads the slice from block s on for a task.
    HWY_INLINE void Read(int64_t s, PanelTask& task) {
      constexpr int64_t kBytes = Decoder::kBlockBytes / kPanelRows;
      const int64_t at = s / Decoder::kSubBlocks * kBytes;
      // In the file, the next panel lies directly behind this one.
      const int64_t to_next = task.is_last ? 0 : rows_.row_bytes;
      task.next = rows_.first + kPanelRows * (to_next + at);
      if (rows_.n_rows == kPanelRows) {
        task.rows = {rows_.first + at, rows_.row_bytes, kPanelRows};
      } else {
        Copy(at, task.n_blocks / Decoder::kSubBlocks * kBytes);
        task.rows = {copy_, kSliceBytes, kPanelRows};
      }
    }

   private:
    static constexpr int64_t kSliceBytes = kSliceBlocks / Decoder::kSubBlocks *
                                           (Decoder::kBlockBytes / kPanelRows);

    // Copies n bytes of each row. The last row stands for those that are
    // missing.
    void Copy(int64_t at, int64_t n) {
      for (int64_t r = 0; r < kPanelRows; ++r) {
        const int64_t of = std::min(r, rows_.n_rows - 1);
        std::memcpy(copy_ + r * kSliceBytes,
                    rows_.first + of * rows_.row_bytes + at,
                    static_cast<size_t>(n));
      }
    }

    PanelRows rows_;
    uint8_t copy_[kPanelRows * kSliceBytes];
  };

#if HWY_TARGET == HWY_AVX3_DL
  template <class Decoder, int kRows>
  using Sums = QuadSums<Decoder, kRows>;
#else
  template <class Decoder, int kRows>
  using Sums = ColumnSums<Decoder, kRows>;
#endif
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
