// The integer part of a product: the sums of 32 columns for each row of a
// panel. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/fold_lanes-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pairs-inl.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/quant/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// One call multiplies blocks of a panel's columns with consecutive packed rows.
struct PanelTask {
  PanelData panel;  // the first block is `first`; for FromPanel
  int64_t cols;     // of a whole row
  int64_t first;
  int64_t n_blocks;
  const uint8_t* packed;  // first row
  float* sums;            // [rows][16], added to
  // For FromFile: each row's block `first`, and by how many bytes prefetching
  // is ahead.
  const uint8_t* rows[kPanelRows];
  int64_t ahead;
};

// The sums of 32 columns times kRows activation rows. If each half of the
// columns has its own scale, each row has two sums.
template <int kRows>
using BlockSums = RowSums[kRows][2];

// Reads panels as they are packed.
template <class Dot>
struct FromPanel {
  // Activation rows of a register block: sums and accumulators of that many
  // rows and two decoded pairs fit in the register file. On NEON, 16 of the 32
  // vectors are the sums of 4 rows and the others are for pairs; accumulators
  // may wait in memory.
  static constexpr int kBlockRows =
      kLanes == 16 ? 8 : (kLanes == 8 || HWY_ARCH_ARM_A64 ? 4 : 2);
  static constexpr int64_t kAheadBytes = 4096;

  // Reads the columns of a panel from block s on for a task.
  template <class Decoder>
  static HWY_INLINE void Read(const PanelData& panel, int64_t s,
                              PartBuffer& buffer, PanelTask& task) {
    task.panel = PartOf(panel, s, buffer);
  }

  // The sums of a task's blocks.
  template <class Decoder, int kRows>
  struct Sums {
    explicit Sums(const PanelTask& of) : task(of) {}
    const PanelTask& task;

    HWY_INLINE auto At(int64_t s) const {
      return ColumnsAt<Decoder>(task.panel, s);
    }
    // Computes those of block s, which is `at`.
    template <class At>
    HWY_INLINE void Get(int64_t s, const At& at, BlockSums<kRows>& sums) {
      // A product of few rows is bound by reading weights from memory, and
      // leaves the integer chains short of work, so they get two each.
      if constexpr (kRows <= 2) PrefetchAhead<Decoder>(at, kAheadBytes);
      constexpr int kChains = (Decoder::kHasHalfScales || kRows <= 2) ? 2 : 1;
      const uint8_t* const values = task.packed + (task.first + s) * 64;
      for (int m = 0; m < kRows; ++m) {
        for (int h = 0; h < kChains; ++h) sums[m][h] = ZeroSums();
      }
      PLIMSOLL_UNROLL_PAIRS
      for (int i = 0; i < 8; ++i) {
        Pairs low;
        Pairs high;
        Decoder::Decode(at, i, low, high);
        for (int m = 0; m < kRows; ++m) {
          const uint8_t* a = values + m * PackedRowBytes(task.cols) + i * 4;
          Dot::Add(low, a, sums[m][0]);
          Dot::Add(high, a + 32, sums[m][kChains - 1]);
        }
      }
      if constexpr (kChains == 2 && !Decoder::kHasHalfScales) {
        for (int m = 0; m < kRows; ++m) {
          for (size_t j = 0; j < kVecs; ++j) {
            sums[m][0].v[j] = hn::Add(sums[m][0].v[j], sums[m][1].v[j]);
          }
        }
      }
    }
  };
};

// Reads rows in the file's order as they are: each row is multiplied by itself,
// along its columns. Then lanes are added up, those of four rows at once.
struct FromFile {
  static constexpr int kBlockRows = 4;
  // With more activation rows, packing once for all of them is faster.
  static constexpr int64_t kMostRows = 8;

  // Reads the part of a panel from block s on for a task.
  template <class Decoder>
  static HWY_INLINE void Read(const PanelData& panel, int64_t s,
                              PartBuffer& /*buffer*/, PanelTask& task) {
    static_assert(Decoder::kSubBlocks == 1 && !Decoder::kHasHalfScales);
    constexpr int64_t kBlockBytes = Decoder::kBlockBytes / kPanelRows;
    const PanelRows& rows = panel.rows;
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const int64_t row = std::min(r, rows.n_rows - 1);
      task.rows[r] = rows.first + row * rows.row_bytes + s * kBlockBytes;
    }
    // Two parts ahead; behind a row's last part lies the next panel's first.
    task.ahead = 2 * kPartBlocks * kBlockBytes;
    if (s * kBlockBytes + task.ahead >= rows.row_bytes) {
      task.ahead += (kPanelRows - 1) * rows.row_bytes;
    }
  }

  // Sums of columns of one row: all lanes together are the sum.
  using DP = hn::RepartitionToWide<DC>;
  using VP = hn::Vec<DP>;

  static HWY_INLINE void AddProducts(VC w, VC a, VP& sum) {
#if HWY_TARGET == HWY_AVX3_DL
    // Written in assembly: Highway 1.0.3 has AVX-VNNI among this path's
    // attributes, so clang would use its encoding, which CPUs with AVX-512
    // alone refuse as an illegal instruction.
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(a.raw));
#else
    VP more = hn::Zero(DP());
    sum = hn::ReorderWidenMulAccumulate(DP(), w, a, sum, more);
    sum = hn::Add(sum, more);
#endif
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

  // Puts the scales of 16 rows before their minima.
  static HWY_INLINE void PartScales(uint8_t* both) {
    const hn::CappedTag<uint16_t, 16> d;
    constexpr size_t kStep = hn::MaxLanes(d);
    auto* const halves = reinterpret_cast<uint16_t*>(both);
    hn::Vec<decltype(d)> v[32 / kStep];
    for (size_t i = 0; i < 32 / kStep; ++i) {
      v[i] = hn::LoadU(d, halves + i * kStep);
    }
    for (size_t i = 0; i < 16 / kStep; ++i) {
      hn::StoreU(hn::ConcatEven(d, v[2 * i + 1], v[2 * i]), d,
                 halves + i * kStep);
      hn::StoreU(hn::ConcatOdd(d, v[2 * i + 1], v[2 * i]), d,
                 halves + 16 + i * kStep);
    }
  }

  // The sums of a task's blocks, at most a part's. They are computed at once:
  // scales are copied a few bytes at a time, and must be in memory when vectors
  // of them are loaded.
  template <class Decoder, int kRows>
  class Sums {
   public:
    explicit HWY_INLINE Sums(const PanelTask& task) {
      for (int64_t s = 0; s < task.n_blocks; ++s) Compute(task, s);
    }
    HWY_INLINE Columns At(int64_t s) const { return {scales_[s], 0, nullptr}; }
    HWY_INLINE void Get(int64_t s, const Columns& /*at*/,
                        BlockSums<kRows>& sums) {
      if constexpr (Decoder::kHasMin) PartScales(scales_[s]);
      for (int m = 0; m < kRows; ++m) {
        for (size_t j = 0; j < kVecs; ++j) {
          sums[m][0].v[j] = Join(DI(), fours_[s][m] + j * kLanes / 4);
        }
      }
    }

   private:
    static constexpr int64_t kBlockBytes = Decoder::kBlockBytes / kPanelRows;
    static constexpr size_t kScaleBytes = Decoder::Row::kScaleBytes;
    static constexpr int kColumnVecs = 32 / kColumnLanes;

    HWY_INLINE void Compute(const PanelTask& task, int64_t s) {
      VC a[kRows][kColumnVecs];
      for (int m = 0; m < kRows; ++m) {
        const auto* values = reinterpret_cast<const int16_t*>(
            task.packed + m * PackedRowBytes(task.cols) +
            (task.first + s) * 64);
        for (int v = 0; v < kColumnVecs; ++v) {
          a[m][v] = hn::LoadU(DC(), values + v * kColumnLanes);
        }
      }
      HWY_UNROLL(1)
      for (int64_t r = 0; r < kPanelRows; r += 4) {
        VP of_rows[kRows][4];
        HWY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          for (int m = 0; m < kRows; ++m) of_rows[m][i] = hn::Zero(DP());
          const uint8_t* const block = task.rows[r + i] + s * kBlockBytes;
          PrefetchToSecondCache(block + task.ahead);
          std::memcpy(scales_[s] + static_cast<size_t>(r + i) * kScaleBytes,
                      block, kScaleBytes);
          HWY_UNROLL(4)
          for (int v = 0; v < kColumnVecs; ++v) {
            const VC w = Decoder::Row::At(block, v * kColumnLanes);
            for (int m = 0; m < kRows; ++m) {
              AddProducts(w, a[m][v], of_rows[m][i]);
            }
          }
        }
        for (int m = 0; m < kRows; ++m) {
          fours_[s][m][r / 4] = FoldLanes(DP(), of_rows[m], TakeSum());
        }
      }
    }

    VI4 fours_[kPartBlocks][kRows][4];
    HWY_ALIGN uint8_t scales_[kPartBlocks][4 * kPanelRows];
  };
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
