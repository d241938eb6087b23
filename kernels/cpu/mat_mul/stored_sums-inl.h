// The sums of blocks in the file's order, which are computed at once and
// stored. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_STORED_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_STORED_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_STORED_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_STORED_SUMS_INL_H_
#endif

#include <cstdint>

#include "kernels/cpu/mat_mul/block_sums-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/quant/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// The sums of a task's blocks, at most a slice's, for a Decoder and kRows
// activation rows. A class that derives from this one computes them all when it
// is constructed: scales are copied a few bytes at a time, and must be in
// memory when vectors of them are loaded.
template <class Decoder, int kRows>
class StoredSums {
 public:
  HWY_INLINE Columns At(int64_t s) const {
    return {ScalesOf(s), s % Decoder::kSubBlocks, nullptr};
  }
  HWY_INLINE void Get(int64_t s, const Columns& /*at*/,
                      BlockSums<kRows>& sums) const {
    for (int m = 0; m < kRows; ++m) {
      for (int h = 0; h < kHalves; ++h) sums[m][h] = sums_[s][m][h];
    }
  }

 protected:
  // Bytes of a row's block, and of 32 columns of it.
  static constexpr int64_t kBlockBytes = Decoder::kBlockBytes / kPanelRows;
  static constexpr int64_t kSubBytes = kBlockBytes / Decoder::kSubBlocks;
  // Parts of 32 columns that have a sum each.
  static constexpr int kHalves = Decoder::kHasHalfScales ? 2 : 1;

  StoredSums() = default;

  static HWY_INLINE const int16_t* Activations(const PanelTask& task, int64_t s,
                                               int m) {
    return reinterpret_cast<const int16_t*>(
        task.packed + m * PackedRowBytes(task.cols) + (task.first + s) * 64);
  }
  // Bytes from a row's begin in a task to its block with columns 32 s.
  static HWY_INLINE int64_t BlockAt(int64_t s) {
    return s / Decoder::kSubBlocks * kBlockBytes;
  }
  const uint8_t* ScalesOf(int64_t s) const {
    return scales_ + s / Decoder::kSubBlocks * kMostScaleBytes;
  }
  uint8_t* ScalesOf(int64_t s) {
    return scales_ + s / Decoder::kSubBlocks * kMostScaleBytes;
  }

  RowSums sums_[kSliceBlocks][kRows][kHalves];

 private:
  HWY_ALIGN uint8_t
      scales_[kSliceBlocks / Decoder::kSubBlocks * kMostScaleBytes];
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
