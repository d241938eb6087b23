// Rows of a panel in the file's order as vectors of four rows each, for
// AVX-512. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/pack_weights.h"

// Attributes without a function would be an error on other paths.
#if HWY_TARGET == HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DQ = hn::FixedTag<uint8_t, 64>;
using VQ = hn::Vec<DQ>;

// The blocks of a quad's rows.
struct QuadRows {
  const uint8_t* rows[4];
};

// A quad: 16 bytes of each row, a block of 128 bits for each.
HWY_INLINE VQ LoadQuad(const QuadRows& blocks, int64_t at) {
  const hn::FixedTag<uint8_t, 16> d;
  const hn::FixedTag<uint8_t, 32> d2;
  const auto load = [&](int i)
                        HWY_ATTR { return hn::LoadU(d, blocks.rows[i] + at); };
  return hn::Combine(DQ(), hn::Combine(d2, load(3), load(2)),
                     hn::Combine(d2, load(1), load(0)));
}

// How 16 bytes of each of 16 rows become units of all rows, one unit after
// another: `n_pairs` units of two bytes, and bytes. A vector takes byte
// index[v][j] of eight rows: of the first eight, or of the last where bit j of
// is_last[v] is set.
struct ByteOrder {
  explicit constexpr ByteOrder(int n_pairs) {
    for (int at = 0; at < 256; ++at) {
      const bool is_pair = at < n_pairs * 2 * kPanelRows;
      const int size = is_pair ? 2 : 1;
      const int unit = at / (size * 16) * size;
      const int row = at % (size * 16) / size;
      index[at / 64][at % 64] =
          static_cast<uint8_t>(row % 8 * 16 + unit + at % size);
      if (row >= 8) is_last[at / 64] |= uint64_t{1} << at % 64;
    }
  }
  uint8_t index[4][64] = {};
  uint64_t is_last[4] = {};
};

// Stores the units of 16 bytes of each row from byte `at` on. row(r) is the
// begin of row r.
template <int kPairs, class Row>
HWY_INLINE void StoreUnits(const Row& row, int64_t at, uint8_t* to) {
  alignas(64) static constexpr ByteOrder kOrder(kPairs);
  VQ rows[4];
  for (int i = 0; i < 4; ++i) {
    const int64_t r = 4 * i;
    rows[i] = LoadQuad({{row(r), row(r + 1), row(r + 2), row(r + 3)}}, at);
  }
  for (int v = 0; v < 4; ++v) {
    const VQ index = hn::Load(DQ(), kOrder.index[v]);
    const __m512i first =
        _mm512_permutex2var_epi8(rows[0].raw, index.raw, rows[1].raw);
    const __m512i last =
        _mm512_permutex2var_epi8(rows[2].raw, index.raw, rows[3].raw);
    const VQ both{_mm512_mask_mov_epi8(first, kOrder.is_last[v], last)};
    hn::StoreU(both, DQ(), to + v * 64);
  }
}
template <int kPairs>
HWY_INLINE void StoreUnits(const PanelRows& rows, int64_t at, uint8_t* to) {
  const auto row = [&](int64_t r) { return rows.first + r * rows.row_bytes; };
  StoreUnits<kPairs>(row, at, to);
}

// Lane r is the four bytes from byte `at` of row r on.
HWY_INLINE __m512i WordsOf(const PanelRows& rows, int64_t at) {
  const auto four = [&](int64_t r) HWY_ATTR {
    int32_t words[4];
    for (int64_t i = 0; i < 4; ++i) {
      std::memcpy(words + i, rows.first + (r + i) * rows.row_bytes + at, 4);
    }
    return _mm_setr_epi32(words[0], words[1], words[2], words[3]);
  };
  const auto eight = [&](int64_t r) HWY_ATTR {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(four(r)), four(r + 4),
                                   1);
  };
  return _mm512_inserti64x4(_mm512_castsi256_si512(eight(0)), eight(8), 1);
}

// Stores the lower or the upper halves of words, as a panel has 16-bit scales.
HWY_INLINE void StoreLowHalves(__m512i words, uint8_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(words));
}
HWY_INLINE void StoreHighHalves(__m512i words, uint8_t* to) {
  StoreLowHalves(_mm512_srli_epi32(words, 16), to);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard, toggled per instruction path
