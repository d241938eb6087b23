// The integer part of a product with weights in the file's order: the sums of
// 32 columns for each row of a panel. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_FILE_SUMS_INL_H_
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
#include "kernels/cpu/prefetch.h"
#include "kernels/quant/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// The sums of a task's blocks, at most a part's, for a Decoder and kRows
// activation rows. They are computed at once: scales are copied a few bytes at
// a time, and must be in memory when vectors of them are loaded.
template <class Decoder, int kRows>
class FileSums {
 public:
  explicit HWY_INLINE FileSums(const PanelTask& task) {
    if constexpr (kScaleBytes == 0) {
      PackScales(Row::kType, *task.rows,
                 CeilDiv(task.n_blocks, Decoder::kSubBlocks), scales_);
    }
    ComputeAll(task);
  }
  HWY_INLINE Columns At(int64_t s) const {
    return {scales_ + s / Decoder::kSubBlocks * kMostScaleBytes,
            s % Decoder::kSubBlocks, nullptr};
  }
  HWY_INLINE void Get(int64_t s, const Columns& /*at*/,
                      BlockSums<kRows>& sums) {
    for (int m = 0; m < kRows; ++m) {
      for (int h = 0; h < kHalves; ++h) sums[m][h] = sums_[s][m][h];
    }
  }

 private:
  using Row = typename Decoder::Row;
  static constexpr int64_t kBlockBytes = Decoder::kBlockBytes / kPanelRows;
  static constexpr int64_t kSubBytes = kBlockBytes / Decoder::kSubBlocks;
  // A block of 32 columns begins with its scale, and its minimum if it has one,
  // of this many bytes. 0: scales of larger blocks are packed.
  static constexpr size_t kScaleBytes = Decoder::kSubBlocks > 1
                                            ? 0
                                            : (Row::kType == DType::kMxfp4 ? 1
                                                                           : 2);
  // Groups of columns that are computed together, and parts of a group that
  // have a sum each.
#if HWY_TARGET == HWY_AVX3_DL
  static constexpr int64_t kTogether = Row::kSubs;
#else
  static constexpr int64_t kTogether = 1;
#endif
  static constexpr int kHalves = Decoder::kHasHalfScales ? 2 : 1;

  // Prefetches as many bytes of the next panel as four rows of group s have.
  HWY_INLINE void PrefetchNext(const PanelTask& task, int64_t row, int64_t s) {
    const uint8_t* const next =
        task.next + (s * kPanelRows + row * kTogether) * kSubBytes;
    PrefetchToSecondCache(next, next + 4 * kTogether * kSubBytes);
  }

  static HWY_INLINE const int16_t* Activations(const PanelTask& task, int64_t s,
                                               int m) {
    return reinterpret_cast<const int16_t*>(
        task.packed + m * PackedRowBytes(task.cols) + (task.first + s) * 64);
  }

#if HWY_TARGET == HWY_AVX3_DL
  HWY_INLINE void ComputeAll(const PanelTask& task) {
    for (int64_t s = 0; s < task.n_blocks; s += Row::kSubs) Compute(task, s);
  }

  // Copies the scales of block s, which is `at` bytes behind those of `rows`,
  // and its minima if it has some, which follow the scales.
  HWY_INLINE void CopyScales(const RowBlocks& rows, int64_t at, int64_t s) {
    const hn::FixedTag<int32_t, 4> d4;
    const hn::FixedTag<int32_t, 8> d8;
    const auto four = [&](int64_t r) HWY_ATTR {
      int32_t words[4];
      for (int64_t i = 0; i < 4; ++i) {
        std::memcpy(words + i, rows[r + i] + at, 4);
      }
      return hn::Vec<decltype(d4)>{
          _mm_setr_epi32(words[0], words[1], words[2], words[3])};
    };
    const VI all = hn::Combine(DI(), hn::Combine(d8, four(12), four(8)),
                               hn::Combine(d8, four(4), four(0)));
    uint8_t* const to = scales_ + s * kMostScaleBytes;
    if constexpr (kScaleBytes == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                       _mm512_cvtepi32_epi8(all.raw));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm512_cvtepi32_epi16(all.raw));
    }
    if constexpr (Decoder::kHasMin) {
      static_assert(kScaleBytes == 2);
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(to + kScaleBytes * kPanelRows),
          _mm512_cvtepi32_epi16(hn::ShiftRight<16>(all).raw));
    }
  }

  // The activations of 32 columns as bytes, the same for each row of a quad:
  // an activation is 256 high + low.
  struct SplitActivations {
    VQ high[2];
    VQ low[2];
    VI begin[kHalves];  // what is added for kOffset
  };
  // The first or the last 16 low bytes of 32 activations, or the high bytes,
  // for each row of a quad.
  static HWY_INLINE VQ RepeatBytes(VQ values, int first) {
    HWY_ALIGN static constexpr uint8_t kEven[16] = {
        0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    const VQ index = hn::Add(hn::LoadDup128(DQ(), kEven),
                             hn::Set(DQ(), static_cast<uint8_t>(first)));
    return VQ{_mm512_permutexvar_epi8(index.raw, values.raw)};
  }
  static HWY_INLINE void Split(const int16_t* values, SplitActivations& to) {
    const hn::FixedTag<int16_t, 32> d;
    const auto words = hn::LoadU(d, values);
    for (int h = 0; h < 2; ++h) {
      to.low[h] = RepeatBytes(hn::BitCast(DQ(), words), 32 * h);
      to.high[h] = RepeatBytes(hn::BitCast(DQ(), words), 32 * h + 1);
    }
    if constexpr (Row::kOffset != 0) {
      // All of an activation is taken off, or only its high part.
      const auto of = Row::kIsWide ? hn::AndNot(hn::Set(d, 255), words) : words;
      const VI lanes{_mm512_dpwssd_epi32(
          _mm512_setzero_si512(), of.raw,
          hn::Set(d, static_cast<int16_t>(-Row::kOffset)).raw)};
      const VI pairs = hn::Add(lanes, hn::SwapAdjacentBlocks(lanes));
      const VI first = hn::ConcatLowerLower(DI(), pairs, pairs);
      const VI second = hn::ConcatUpperUpper(DI(), pairs, pairs);
      if constexpr (kHalves == 2) {
        to.begin[0] = first;
        to.begin[1] = second;
      } else {
        to.begin[0] = hn::Add(first, second);
      }
    } else {
      for (VI& begin : to.begin) begin = hn::Zero(DI());
    }
  }

  // Sets the sums of four rows: of 32 columns of each with an activation row.
  static HWY_INLINE void MultiplyQuad(const VQ (&w)[2],
                                      const SplitActivations& a,
                                      VI (&sums)[kHalves]) {
    for (VI& sum : sums) sum = hn::Zero(DI());
    for (int h = 0; h < 2; ++h) {
      VI& sum = sums[h * kHalves / 2];
      sum.raw = _mm512_dpbusd_epi32(sum.raw, w[h].raw, a.high[h].raw);
    }
    for (int h = 0; h < kHalves; ++h) {
      sums[h] = hn::Add(hn::ShiftLeft<8>(sums[h]), a.begin[h]);
    }
    for (int h = 0; h < 2; ++h) {
      // The other factor of a product has a sign: low bytes have none.
      const VQ as_signed =
          Row::kIsWide ? hn::Xor(w[h], hn::Set(DQ(), uint8_t{128})) : w[h];
      VI& sum = sums[h * kHalves / 2];
      sum.raw = _mm512_dpbusd_epi32(sum.raw, a.low[h].raw, as_signed.raw);
    }
  }

  // Computes the sums of Row::kSubs groups of columns from group s on.
  HWY_INLINE void Compute(const PanelTask& task, int64_t s) {
    constexpr int kSubs = Row::kSubs;
    SplitActivations a[kSubs][kRows];
    for (int j = 0; j < kSubs; ++j) {
      for (int m = 0; m < kRows; ++m) {
        Split(Activations(task, s + j, m), a[j][m]);
      }
    }
    const int64_t at = s / Decoder::kSubBlocks * kBlockBytes;
    if constexpr (kScaleBytes > 0) CopyScales(*task.rows, at, s);
    VI quads[kSubs][kRows][4][kHalves];
    HWY_UNROLL(1)
    for (int i = 0; i < 4; ++i) {
      // Four lanes of four such vectors become one each: then row r is lane r.
      const RowBlocks& all = *task.rows;
      const QuadRows rows = {
          {all[i] + at, all[i + 4] + at, all[i + 8] + at, all[i + 12] + at}};
      PrefetchNext(task, 4 * i, s);
      VQ w[kSubs][2];
      Row::At(rows, s % Decoder::kSubBlocks, w);
      HWY_UNROLL(4)
      for (int j = 0; j < kSubs; ++j) {
        for (int m = 0; m < kRows; ++m) {
          MultiplyQuad(w[j], a[j][m], quads[j][m][i]);
        }
      }
    }
    for (int j = 0; j < kSubs; ++j) {
      for (int m = 0; m < kRows; ++m) {
        for (int h = 0; h < kHalves; ++h) {
          const auto& of = quads[j][m];
          const VI fours[4] = {of[0][h], of[1][h], of[2][h], of[3][h]};
          sums_[s + j][m][h].v[0] = FoldToFours(DI(), fours, TakeSum());
        }
      }
    }
  }
#else
  // Copies the scales of block s of four rows, of which `first` is the first.
  HWY_INLINE void CopyScales(const uint8_t* const (&rows)[4], int first,
                             int64_t s) {
    if constexpr (kScaleBytes > 0) {
      uint8_t* to = scales_ + s * kMostScaleBytes +
                    static_cast<size_t>(first) * kScaleBytes;
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

  HWY_INLINE void ComputeAll(const PanelTask& task) {
    for (int64_t s = 0; s < task.n_blocks; ++s) {
      if (Row::IsUpper(s)) {
        Compute<true>(task, s);
      } else {
        Compute<false>(task, s);
      }
    }
  }

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
        a[m][v] = hn::LoadU(DC(), Activations(task, s, m) + v * kColumnLanes);
        if constexpr (Row::kOffset != 0) {
          AddProducts(hn::Set(DC(), -Row::kOffset), a[m][v],
                      begin[m][v * kHalves / kColumnVecs]);
        }
      }
    }
    const int64_t at = s / Decoder::kSubBlocks * kBlockBytes;
    const auto sub = static_cast<int>(s % Decoder::kSubBlocks);
    VI4 fours[kRows][kHalves][4];
    HWY_UNROLL(1)
    for (int64_t r = 0; r < kPanelRows; r += 4) {
      const RowBlocks& all = *task.rows;
      const uint8_t* const rows[4] = {all[r] + at, all[r + 1] + at,
                                      all[r + 2] + at, all[r + 3] + at};
      PrefetchNext(task, r, s);
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
          sums_[s][m][h].v[j] = Join(DI(), fours[m][h] + j * kLanes / 4);
        }
      }
    }
  }
#endif

  RowSums sums_[kPartBlocks][kRows][kHalves];
  HWY_ALIGN uint8_t
      scales_[kPartBlocks / Decoder::kSubBlocks * kMostScaleBytes];
};

// Reads rows in the file's order as they are: each row is multiplied by itself,
// along its columns. Then lanes are added up, those of all rows at once.
struct FromFile {
  static constexpr int kBlockRows = 4;
  // With more activation rows, packing once for all of them is faster.
  static constexpr int64_t kMostRows = 8;

  // Reads the parts of a panel.
  template <class Decoder>
  class Reader {
   public:
    explicit Reader(const PanelData& panel)
        : panel_(panel.rows), rows_(BlocksOf(panel.rows, 0)) {}
    // Reads the part from block s on for a task.
    HWY_INLINE void Read(int64_t s, PanelTask& task) {
      task.rows = &rows_;
      rows_.at = s / Decoder::kSubBlocks * (Decoder::kBlockBytes / kPanelRows);
      // In the file, the next panel lies directly behind this one.
      task.next = panel_.first + kPanelRows * (panel_.row_bytes + rows_.at);
    }

   private:
    PanelRows panel_;
    RowBlocks rows_;
  };

  template <class Decoder, int kRows>
  using Sums = FileSums<Decoder, kRows>;
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
