// Sums of blocks in the file's order: each row is multiplied by itself, along
// its columns. Then lanes are added up, those of all rows at once. Included
// once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_COLUMN_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_COLUMN_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_COLUMN_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_COLUMN_SUMS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/fold_lanes-inl.h"
#include "kernels/cpu/mat_mul/block_sums-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/cpu/mat_mul/stored_sums-inl.h"
#include "kernels/cpu/prefetch.h"

#if HWY_TARGET != HWY_AVX3_DL  // it has QuadSums
HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

template <class Decoder, int kRows>
class ColumnSums : public StoredSums<Decoder, kRows> {
 public:
  explicit HWY_INLINE ColumnSums(const PanelTask& task) {
    if constexpr (kScaleBytes == 0) {
      PackScales(Row::kType, BlocksOf(task.rows, 0),
                 CeilDiv(task.n_blocks, Decoder::kSubBlocks),
                 Base::ScalesOf(0));
    }
    for (int64_t s = 0; s < task.n_blocks; ++s) {
      if (Row::IsUpper(s)) {
        Compute<true>(task, s);
      } else {
        Compute<false>(task, s);
      }
    }
  }

 private:
  using Base = StoredSums<Decoder, kRows>;
  using Row = typename Decoder::Row;
  using Base::kHalves;
  // A block of 32 columns begins with its scale, and its minimum if it has one,
  // of this many bytes. 0: scales of larger blocks are packed.
  static constexpr size_t kScaleBytes = Decoder::kSubBlocks > 1
                                            ? 0
                                            : (Row::kType == DType::kMxfp4 ? 1
                                                                           : 2);

  // Copies the scales of block s of four rows, of which `first` is the first.
  HWY_INLINE void CopyScales(const uint8_t* const (&rows)[4], int first,
                             int64_t s) {
    if constexpr (kScaleBytes > 0) {
      uint8_t* to =
          Base::ScalesOf(s) + static_cast<size_t>(first) * kScaleBytes;
      for (const uint8_t* row : rows) {
        std::memcpy(to, row, kScaleBytes);
        if constexpr (Decoder::kHasMin) {
          std::memcpy(to + kScaleBytes * kPanelRows, row + kScaleBytes,
                      kScaleBytes);
        }
        to += kScaleBytes;
      }
    }
  }

  // Sums of columns of one row: all lanes together are the sum.
  using DP = hn::RepartitionToWide<DC>;
  using VP = hn::Vec<DP>;
  static constexpr int kColumnVecs = 32 / kColumnLanes;

  static HWY_INLINE void AddProducts(VC w, VC a, VP& sum) {
    VP more = hn::Zero(DP());
    sum = hn::ReorderWidenMulAccumulate(DP(), w, a, sum, more);
    sum = hn::Add(sum, more);
  }

  // One vector of what several vectors of four lanes have.
  template <class D>
  static HWY_INLINE hn::Vec<D> Join(D d, const VI4* fours) {
    if constexpr (hn::MaxLanes(D()) == 4) {
      return fours[0];
    } else {
      const hn::Half<D> half;
      return hn::Combine(d, Join(half, fours + hn::MaxLanes(half) / 4),
                         Join(half, fours));
    }
  }

  template <bool kUpper>
  HWY_INLINE void Compute(const PanelTask& task, int64_t s) {
    VC a[kRows][kColumnVecs];
    VP begin[kRows][kHalves];
    for (int m = 0; m < kRows; ++m) {
      for (int h = 0; h < kHalves; ++h) begin[m][h] = hn::Zero(DP());
      for (int v = 0; v < kColumnVecs; ++v) {
        a[m][v] =
            hn::LoadU(DC(), Base::Activations(task, s, m) + v * kColumnLanes);
        if constexpr (Row::kOffset != 0) {
          AddProducts(hn::Set(DC(), -Row::kOffset), a[m][v],
                      begin[m][v * kHalves / kColumnVecs]);
        }
      }
    }
    const int64_t row_bytes = task.rows.row_bytes;
    const uint8_t* const first = task.rows.first + Base::BlockAt(s);
    const uint8_t* next = task.next + s * kPanelRows * Base::kSubBytes;
    const auto sub = static_cast<int>(s % Decoder::kSubBlocks);
    VI4 fours[kRows][kHalves][4];
    HWY_UNROLL(1)
    for (int64_t r = 0; r < kPanelRows; r += 4) {
      const uint8_t* const row = first + r * row_bytes;
      const uint8_t* const rows[4] = {row, row + row_bytes, row + 2 * row_bytes,
                                      row + 3 * row_bytes};
      PrefetchToSecondCache(next, next + 4 * Base::kSubBytes);
      next += 4 * Base::kSubBytes;
      CopyScales(rows, static_cast<int>(r), s);
      VP of_rows[kRows][kHalves][4];
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        for (int m = 0; m < kRows; ++m) {
          for (int h = 0; h < kHalves; ++h) of_rows[m][h][i] = begin[m][h];
        }
        HWY_UNROLL(4)
        for (int v = 0; v < kColumnVecs; ++v) {
          const VC w = Row::template At<kUpper>(rows[i], sub, v * kColumnLanes);
          for (int m = 0; m < kRows; ++m) {
            AddProducts(w, a[m][v], of_rows[m][v * kHalves / kColumnVecs][i]);
          }
        }
      }
      for (int m = 0; m < kRows; ++m) {
        for (int h = 0; h < kHalves; ++h) {
          fours[m][h][r / 4] = FoldLanes(DP(), of_rows[m][h], TakeSum());
        }
      }
    }
    for (int m = 0; m < kRows; ++m) {
      for (int h = 0; h < kHalves; ++h) {
        for (size_t j = 0; j < kVecs; ++j) {
          Base::sums_[s][m][h].v[j] = Join(DI(), fours[m][h] + j * kLanes / 4);
        }
      }
    }
  }
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard, toggled per instruction path
