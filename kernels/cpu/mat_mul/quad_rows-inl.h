// Four rows in the file's order as one vector, for AVX-512. Included once per
// instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_ROWS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

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

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard, toggled per instruction path
