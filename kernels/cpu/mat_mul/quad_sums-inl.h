// Sums of blocks in the file's order for AVX-512 with VNNI: quads of rows are
// multiplied (quad_decoders-inl.h). Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_SUMS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_SUMS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/fold_lanes-inl.h"
#include "kernels/cpu/mat_mul/block_sums-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/cpu/mat_mul/stored_sums-inl.h"
#include "kernels/cpu/prefetch.h"

// Attributes without a function would be an error on other paths.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

template <class Decoder, int kRows>
class QuadSums : public StoredSums<Decoder, kRows> {
 public:
  explicit HWY_INLINE QuadSums(const PanelTask& task) {
    for (int m = 0; m < kRows; ++m) {
      for (int64_t s = 0; s < task.n_blocks; ++s) {
        Split(Base::Activations(task, s, m), activations_[m][s]);
      }
    }
    for (int64_t s = 0; s < task.n_blocks; s += Decoder::kSubBlocks) {
      StoreScales(task.rows, s);
      for (int64_t sub = 0; sub < Decoder::kSubBlocks; sub += kSubs) {
        Compute(task, s + sub);
      }
    }
  }

 private:
  using Base = StoredSums<Decoder, kRows>;
  using Row = typename Decoder::Row;
  using Base::kHalves;
  // Groups of 32 columns that are computed together.
  static constexpr int kSubs = Row::kSubs;

  // 32 activations. One is 256 high + low.
  struct SplitActivations {
    HWY_ALIGN uint8_t bytes[64];  // the low bytes, then the high ones
    int32_t begin[kHalves];       // what is added for kOffset

    const uint8_t* low() const { return bytes; }
    const uint8_t* high() const { return bytes + 32; }
  };

  static HWY_INLINE void Split(const int16_t* values, SplitActivations& to) {
    HWY_ALIGN static constexpr uint8_t kLowThenHigh[64] = {
        0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62,
        1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
        33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const hn::FixedTag<int16_t, 32> d;
    const auto words = hn::LoadU(d, values);
    const VQ bytes{
        _mm512_permutexvar_epi8(hn::Load(DQ(), kLowThenHigh).raw, words.raw)};
    hn::Store(bytes, DQ(), to.bytes);
    if constexpr (Row::kOffset != 0) {
      // All of an activation is taken off, or only its high part.
      const auto of = Row::kIsWide ? hn::AndNot(hn::Set(d, 255), words) : words;
      const VI lanes{_mm512_dpwssd_epi32(
          _mm512_setzero_si512(), of.raw,
          hn::Set(d, static_cast<int16_t>(-Row::kOffset)).raw)};
      const hn::Half<DI> half;
      const auto first = hn::LowerHalf(half, lanes);
      const auto second = hn::UpperHalf(half, lanes);
      if constexpr (kHalves == 2) {
        to.begin[0] = hn::GetLane(hn::SumOfLanes(half, first));
        to.begin[1] = hn::GetLane(hn::SumOfLanes(half, second));
      } else {
        to.begin[0] = hn::GetLane(hn::SumOfLanes(half, hn::Add(first, second)));
      }
    }
  }

  // Stores the scales of the block with columns 32 s.
  HWY_INLINE void StoreScales(const PanelRows& rows, int64_t s) {
    const int64_t at = Base::BlockAt(s);
    if constexpr (requires { Row::StoreScales; }) {
      Row::StoreScales(rows, at, Base::ScalesOf(s));
    } else {
      PackScales(Row::kType, BlocksOf(rows, at), 1, Base::ScalesOf(s));
    }
  }

  // Sets the sums of four rows: of 32 columns of each with an activation row.
  static HWY_INLINE void MultiplyQuad(const VQ (&w)[2],
                                      const SplitActivations& a,
                                      VI (&sums)[kHalves]) {
    for (VI& sum : sums) sum = hn::Zero(DI());
    for (int h = 0; h < 2; ++h) {
      VI& sum = sums[h * kHalves / 2];
      sum.raw = _mm512_dpbusd_epi32(
          sum.raw, w[h].raw, hn::LoadDup128(DQ(), a.high() + 16 * h).raw);
    }
    for (VI& sum : sums) sum = hn::ShiftLeft<8>(sum);
    for (int h = 0; h < 2; ++h) {
      // The other factor of a product has a sign: low bytes have none.
      const VQ as_signed =
          Row::kIsWide ? hn::Xor(w[h], hn::Set(DQ(), uint8_t{128})) : w[h];
      VI& sum = sums[h * kHalves / 2];
      sum.raw = _mm512_dpbusd_epi32(
          sum.raw, hn::LoadDup128(DQ(), a.low() + 16 * h).raw, as_signed.raw);
    }
  }

  // Computes the sums of kSubs groups of columns from column 32 s on, and
  // prefetches as many bytes of the next panel.
  HWY_INLINE void Compute(const PanelTask& task, int64_t s) {
    constexpr int64_t kNextBytes = kPanelRows / 4 * Base::kSubBytes * kSubs;
    const int64_t row_bytes = task.rows.row_bytes;
    const uint8_t* const first = task.rows.first + Base::BlockAt(s);
    const uint8_t* next = task.next + s * kPanelRows * Base::kSubBytes;
    VI quads[kSubs][kRows][kHalves][4];
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      // Four lanes of four such vectors become one each: then row r is lane r.
      const uint8_t* const row = first + i * row_bytes;
      const QuadRows rows = {{row, row + 4 * row_bytes, row + 8 * row_bytes,
                              row + 12 * row_bytes}};
      PrefetchToSecondCache(next, next + kNextBytes);
      next += kNextBytes;
      VQ w[kSubs][2];
      Row::At(rows, s % Decoder::kSubBlocks, w);
      for (int j = 0; j < kSubs; ++j) {
        for (int m = 0; m < kRows; ++m) {
          VI sums[kHalves];
          MultiplyQuad(w[j], activations_[m][s + j], sums);
          for (int h = 0; h < kHalves; ++h) quads[j][m][h][i] = sums[h];
        }
      }
    }
    for (int j = 0; j < kSubs; ++j) {
      for (int m = 0; m < kRows; ++m) {
        for (int h = 0; h < kHalves; ++h) {
          VI sum = FoldToFours(DI(), quads[j][m][h], TakeSum());
          if constexpr (Row::kOffset != 0) {
            sum = hn::Add(sum, hn::Set(DI(), activations_[m][s + j].begin[h]));
          }
          Base::sums_[s + j][m][h].v[0] = sum;
        }
      }
    }
  }

  SplitActivations activations_[kRows][kSliceBlocks];
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard, toggled per instruction path
