// Vectors of 16 lanes, one lane for each row of a weight panel. Included once
// per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/pack_weights.h"

// Keeps a compiler from drawing conclusions about a function from its callers:
// GCC 12 at -O3 takes some functions that decode a type with minima for ones
// that write nothing, and drops their calls.
#undef PLIMSOLL_NO_IPA
#if defined(__GNUC__) && !defined(__clang__)
#define PLIMSOLL_NO_IPA __attribute__((noipa))
#else
#define PLIMSOLL_NO_IPA
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DS = hn::Repartition<int16_t, DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VS = hn::Vec<DS>;

inline constexpr size_t kLanes = hn::MaxLanes(DF());
inline constexpr size_t kVecs = 16 / kLanes;

// Rows has a float for each row of a panel, RowSums an int32, Pairs two
// adjacent columns as int16.
struct Rows {
  VF v[kVecs];
};
struct RowSums {
  VI v[kVecs];
};
struct Pairs {
  VS v[kVecs];
};

HWY_INLINE Rows ZeroRows() {
  Rows rows;
  for (size_t j = 0; j < kVecs; ++j) rows.v[j] = hn::Zero(DF());
  return rows;
}

HWY_INLINE RowSums ZeroSums() {
  RowSums sums;
  for (size_t j = 0; j < kVecs; ++j) sums.v[j] = hn::Zero(DI());
  return sums;
}

HWY_INLINE Rows LoadRows(const float* from) {
  Rows rows;
  for (size_t j = 0; j < kVecs; ++j) {
    rows.v[j] = hn::LoadU(DF(), from + j * kLanes);
  }
  return rows;
}

HWY_INLINE void StoreRows16(const Rows& rows, float* to) {
  for (size_t j = 0; j < kVecs; ++j) {
    hn::StoreU(rows.v[j], DF(), to + j * kLanes);
  }
}

HWY_INLINE Rows Scaled(const Rows& rows, float scale) {
  const VF factor = hn::Set(DF(), scale);
  Rows scaled;
  for (size_t j = 0; j < kVecs; ++j) {
    scaled.v[j] = hn::Mul(rows.v[j], factor);
  }
  return scaled;
}

// Stores the first `n_valid` sums, scaled, as a row's outputs, or adds them to
// its outputs.
inline void StoreOut(const Rows& sums, float scale, int64_t n_valid,
                     bool accumulate, float* out) {
  const Rows scaled = Scaled(sums, scale);
  if (n_valid == kPanelRows) {
    Rows result = scaled;
    if (accumulate) {
      const Rows old = LoadRows(out);
      for (size_t j = 0; j < kVecs; ++j) {
        result.v[j] = hn::Add(old.v[j], scaled.v[j]);
      }
    }
    StoreRows16(result, out);
    return;
  }
  float lanes[kPanelRows];
  StoreRows16(scaled, lanes);
  for (int64_t r = 0; r < n_valid; ++r) {
    out[r] = accumulate ? out[r] + lanes[r] : lanes[r];
  }
}

HWY_INLINE float LoadFloat(const uint8_t* from) {
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// acc += a * b; b is the same for all rows.
HWY_INLINE void AddScaled(const Rows& a, float b, Rows& acc) {
  const VF factor = hn::Set(DF(), b);
  for (size_t j = 0; j < kVecs; ++j) {
    acc.v[j] = hn::MulAdd(a.v[j], factor, acc.v[j]);
  }
}

// acc += sums * (scale * factor).
HWY_INLINE void AddSums(const RowSums& sums, const Rows& scale, float factor,
                        Rows& acc) {
  const VF f = hn::Set(DF(), factor);
  for (size_t j = 0; j < kVecs; ++j) {
    acc.v[j] = hn::MulAdd(hn::ConvertTo(DF(), sums.v[j]),
                          hn::Mul(scale.v[j], f), acc.v[j]);
  }
}

#if HWY_TARGET == HWY_SSE4
// Puts the numbers that are not finite back: the emulated conversion of
// `halves` to `floats` loses them, but a damaged weight must show.
HWY_INLINE VF KeepNonFinite(const uint16_t* halves, VF floats) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint16_t, DF> dh;
  const auto bits = hn::PromoteTo(du, hn::LoadU(dh, halves));
  const auto exponent = hn::Set(du, 0x7C00u);
  const auto is_lost = hn::Eq(hn::And(bits, exponent), exponent);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto mantissa = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x3FFu)));
  const auto kept = hn::Or(hn::Or(sign, mantissa), hn::Set(du, 0x7F800000u));
  return hn::IfThenElse(hn::RebindMask(DF(), is_lost), hn::BitCast(DF(), kept),
                        floats);
}
#endif

HWY_INLINE Rows LoadF16(const uint8_t* from) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
  Rows rows;
  for (size_t j = 0; j < kVecs; ++j) {
    rows.v[j] = hn::PromoteTo(DF(), hn::LoadU(dh, halves + j * kLanes));
#if HWY_TARGET == HWY_SSE4
    rows.v[j] = KeepNonFinite(
        reinterpret_cast<const uint16_t*>(from) + j * kLanes, rows.v[j]);
#endif
  }
  return rows;
}

HWY_INLINE Rows LoadBf16(const uint8_t* from) {
  const hn::Rebind<uint16_t, DF> dh;
  const hn::RebindToUnsigned<DF> du;
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  Rows rows;
  for (size_t j = 0; j < kVecs; ++j) {
    const auto wide = hn::PromoteTo(du, hn::LoadU(dh, halves + j * kLanes));
    rows.v[j] = hn::BitCast(DF(), hn::ShiftLeft<16>(wide));
  }
  return rows;
}

// Loads 16 bytes as int32 lanes.
HWY_INLINE RowSums LoadU8(const uint8_t* from) {
  const hn::Rebind<uint8_t, DI> db;
  RowSums rows;
  for (size_t j = 0; j < kVecs; ++j) {
    rows.v[j] = hn::PromoteTo(DI(), hn::LoadU(db, from + j * kLanes));
  }
  return rows;
}

// Loads 32 bytes as int16 lanes: row-major pairs, zero-extended.
HWY_INLINE VS LoadPairsU8(const uint8_t* from, size_t j) {
  const hn::Rebind<uint8_t, DS> db;
  return hn::PromoteTo(DS(), hn::LoadU(db, from + j * 2 * kLanes));
}

// The values of bytes that are indices into a table of 16 values.
template <class D, class VIndex>
HWY_INLINE hn::Vec<D> LookUp(D d, const int8_t* table, VIndex index) {
  const hn::Rebind<int8_t, D> di;
  const hn::FixedTag<int8_t, HWY_MAX(16, hn::MaxLanes(di))> dt;
  return hn::PromoteTo(d, hn::TableLookupBytes(hn::LoadDup128(dt, table),
                                               hn::BitCast(di, index)));
}

// The scales of 32 columns: value = d[half] * q + m[half]. A type with one
// scale has only d[0] and m[0]. Only some types have m, which is added.
struct Scales {
  Rows d[2];
  Rows m[2];
};

// Where 32 columns of a panel are stored.
struct Columns {
  const uint8_t* block;  // the panel's block
  int64_t sub;           // index in the block, in units of 32 columns
  const uint8_t* low;    // low parts, or null
};

// The columns [32 s, 32 s + 32) as a decoder reads them. Some decoders have an
// Expand, which decodes them at once.
template <class Decoder>
HWY_INLINE auto ColumnsAt(const PanelData& panel, int64_t s) {
  if constexpr (requires { Decoder::Expand(panel, s); }) {
    return Decoder::Expand(panel, s);
  } else {
    return Columns{
        panel.blocks + s / Decoder::kSubBlocks * Decoder::kBlockBytes,
        s % Decoder::kSubBlocks,
        panel.low == nullptr ? nullptr : panel.low + s * kNibblesBytes};
  }
}

// Prefetches the weights `ahead` bytes after these columns, also beyond the end
// of the panel.
template <class Decoder>
HWY_INLINE void PrefetchAhead(const Columns& at, int64_t ahead) {
  constexpr int64_t kSubBytes = Decoder::kBlockBytes / Decoder::kSubBlocks;
  const uint8_t* next = at.block + at.sub * kSubBytes + ahead;
  for (int64_t i = 0; i < kSubBytes; i += 64) hwy::Prefetch(next + i);
  if (at.low == nullptr) return;
  for (int64_t i = 0; i < kNibblesBytes; i += 64) {
    hwy::Prefetch(at.low + ahead + i);
  }
}

// The sum of half of a block's activations, scaled.
HWY_INLINE float HalfSum(const uint8_t* values, float scale) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    int16_t value;
    std::memcpy(&value, values + 2 * i, sizeof(value));
    sum += value;
  }
  return scale * static_cast<float>(sum);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
