// The integer part of a product: the sums of 32 columns for each row of a
// panel. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_BLOCK_SUMS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/cpu/mat_mul/pairs-inl.h"
#include "kernels/quant/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// One call multiplies blocks of a panel's columns with consecutive packed rows.
struct PanelTask {
  PanelData panel;  // its first block is `first`; for FromPanel
  int64_t cols;     // columns of a whole row
  int64_t first;
  int64_t n_blocks;
  const uint8_t* packed;  // first row
  float* sums;            // [rows][16], added to
  bool is_last;           // it is the last panel that the thread multiplies
  // For FromFile: 16 rows from block `first` on, and the bytes that are
  // prefetched meanwhile: those of the next panel if there is one.
  PanelRows rows;
  const uint8_t* next;
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

  static void PrefetchPanel(const PanelData& /*panel*/) {}

  // Reads the slices of a panel.
  template <class Decoder>
  class Reader {
   public:
    explicit Reader(const PanelData& panel) : panel_(panel) {}
    // Reads the columns from block s on for a task.
    HWY_INLINE void Read(int64_t s, PanelTask& task) {
      task.panel = SliceOf(panel_, s, buffer_);
    }

   private:
    const PanelData& panel_;
    SliceBuffer buffer_;
  };

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

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
