// Converts stored heads of keys and values to float32. Included once per
// instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_
#endif

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/quant/float16.h"
#include "kernels/quant/kv_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block's scale in every lane. A scale that is not finite stays so.
template <class D>
HWY_INLINE hn::Vec<D> LoadScale(D d, const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
#if HWY_TARGET == HWY_SSE4  // its emulated conversion loses NaN
  return hn::Set(d, F32FromF16(half));
#else
  const hn::Rebind<uint16_t, D> du;
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::BitCast(dh, hn::Set(du, half)));
#endif
}

using AttentionTag = hn::CappedTag<float, 16>;
constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(AttentionTag()));

// Vectors of a stored head that are loaded together, a span. Two vectors of a
// block share the work for its scale.
template <DType kType>
inline constexpr int kSpanVectors = IsFloatType(kType) ? 1 : 2;

template <int kVectors>
struct Span {
  hn::Vec<AttentionTag> v[kVectors];
};

// The head's element with which vector `v` of a span begins, where `i` elements
// are in the spans before. Elements that share bytes share a span.
template <DType kType>
constexpr int64_t SpanElement(int64_t i, int v) {
  if (!IsNibbleType(kType)) return i + v * kLanes;
  return i - i % kKvBlock / 2 + v * kKvBlock / 2;
}

// The bits of a block's fifths.
inline constexpr auto kFifthBits = [] {
  std::array<int32_t, kKvBlock> bits = {};
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<int32_t>(uint32_t{1} << i);
  }
  return bits;
}();

#if HWY_MAX_BYTES >= 64
// Loads a whole block of nibbles: a vector has the values of 16 levels, of
// which each element takes one.
template <DType kType>
HWY_INLINE Span<2> LookUpNibbles(const std::byte* block) {
  const AttentionTag d;
  const hn::RebindToSigned<AttentionTag> di;
  const hn::Rebind<uint8_t, AttentionTag> db;
  const auto scale = LoadScale(d, block);
  constexpr bool kHasFifths = kType == DType::kQ5_1;
  const auto* nibbles =
      reinterpret_cast<const uint8_t*>(block) + (kHasFifths ? 8 : 2);
  const auto both = hn::PromoteTo(di, hn::LoadU(db, nibbles));
  const hn::Vec<decltype(di)> levels[2] = {both, hn::ShiftRight<4>(both)};
  // It takes the lowest four bits of each level.
  const auto look_up = [](hn::Vec<AttentionTag> values,
                          hn::Vec<decltype(di)> level) HWY_ATTR {
    return hn::Vec<AttentionTag>{_mm512_permutexvar_ps(level.raw, values.raw)};
  };
  Span<2> span;
  if constexpr (kHasFifths) {
    const auto from = LoadScale(d, block + 2);
    const auto lower = hn::MulAdd(hn::Iota(d, 0.0f), scale, from);
    const auto upper = hn::MulAdd(hn::Iota(d, 16.0f), scale, from);
    const auto* fifths = reinterpret_cast<const uint8_t*>(block) + 4;
    for (int v = 0; v < 2; ++v) {
      span.v[v] =
          hn::IfThenElse(hn::LoadMaskBits(d, fifths + 2 * v),
                         look_up(upper, levels[v]), look_up(lower, levels[v]));
    }
  } else {
    const auto values = hn::Mul(hn::Iota(d, -8.0f), scale);
    for (int v = 0; v < 2; ++v) span.v[v] = look_up(values, levels[v]);
  }
  return span;
}
#else
// Loads a span of nibbles that begins with element i < 16 of `block`. Products
// are exact: 11 bits of scale, 5 of level.
template <DType kType>
HWY_INLINE Span<2> LoadNibbles(const std::byte* block, int64_t i) {
  static_assert(kType == DType::kQ4_0 || kType == DType::kQ5_1);
  const AttentionTag d;
  const hn::RebindToSigned<AttentionTag> di;
  const hn::Rebind<uint8_t, AttentionTag> db;
  const auto scale = LoadScale(d, block);
  auto from = hn::Mul(scale, hn::Set(d, -8.0f));
  const std::byte* nibbles = block + 2;
  if constexpr (kType == DType::kQ5_1) {
    from = LoadScale(d, block + 2);
    nibbles = block + 8;
  }
  const auto both = hn::PromoteTo(
      di, hn::LoadU(db, reinterpret_cast<const uint8_t*>(nibbles) + i));
  hn::Vec<decltype(di)> levels[2] = {hn::And(both, hn::Set(di, 15)),
                                     hn::ShiftRight<4>(both)};
  Span<2> span;
  for (int v = 0; v < 2; ++v) {
    if constexpr (kType == DType::kQ5_1) {
      int32_t fifths;
      std::memcpy(&fifths, block + 4, 4);
      const auto bit = hn::LoadU(di, kFifthBits.data() + i + v * kKvBlock / 2);
      const auto is_set = hn::TestBit(hn::Set(di, fifths), bit);
      levels[v] =
          hn::Or(levels[v], hn::IfThenElseZero(is_set, hn::Set(di, 16)));
    }
    span.v[v] = hn::MulAdd(hn::ConvertTo(d, levels[v]), scale, from);
  }
  return span;
}
#endif

// Loads the span before which there are `i` elements. Every product of q8_0 is
// exact: 11 bits of scale, 7 of level.
template <DType kType>
HWY_INLINE Span<kSpanVectors<kType>> LoadSpan(const std::byte* from,
                                              int64_t i) {
  using D = AttentionTag;
  const D d;
  Span<kSpanVectors<kType>> span;
  if constexpr (IsNibbleType(kType)) {
#if HWY_MAX_BYTES >= 64
    return LookUpNibbles<kType>(from + KvBytes(kType, i));
#else
    return LoadNibbles<kType>(from + KvBytes(kType, i), i % kKvBlock / 2);
#endif
  } else if constexpr (kType == DType::kF32) {
    span.v[0] = hn::LoadU(d, reinterpret_cast<const float*>(from) + i);
  } else if constexpr (kType == DType::kBF16) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> dh;
    const auto* halves = reinterpret_cast<const uint16_t*>(from) + i;
    const auto bits = hn::PromoteTo(du, hn::LoadU(dh, halves));
    span.v[0] = hn::BitCast(d, hn::ShiftLeft<16>(bits));
  } else if constexpr (kType == DType::kQ8_0) {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<int8_t, D> db;
    const std::byte* block = from + KvBytes(kType, i);
    const auto* quants =
        reinterpret_cast<const int8_t*>(block + 2) + i % kKvBlock;
    const auto scale = LoadScale(d, block);
    for (size_t v = 0; v < kSpanVectors<kType>; ++v) {
      const auto q =
          hn::PromoteTo(di, hn::LoadU(db, quants + v * hn::MaxLanes(d)));
      span.v[v] = hn::Mul(hn::ConvertTo(d, q), scale);
    }
  } else {
    static_assert(kType == DType::kF16);
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from) + i;
    span.v[0] = hn::PromoteTo(d, hn::LoadU(dh, halves));
  }
  return span;
}

// Calls run(type), the type of keys or values as a constant.
template <typename Run>
void WithKvType(DType type, const Run& run) {
  switch (type) {
    case DType::kF32:
      return run(std::integral_constant<DType, DType::kF32>());
    case DType::kBF16:
      return run(std::integral_constant<DType, DType::kBF16>());
    case DType::kQ8_0:
      return run(std::integral_constant<DType, DType::kQ8_0>());
    case DType::kQ5_1:
      return run(std::integral_constant<DType, DType::kQ5_1>());
    case DType::kQ4_0:
      return run(std::integral_constant<DType, DType::kQ4_0>());
    default:
      return run(std::integral_constant<DType, DType::kF16>());
  }
}

template <DType kType>
void LoadHeadOf(const std::byte* from, int64_t n, float* to) {
  constexpr int kVectors = kSpanVectors<kType>;
  for (int64_t i = 0; i < n; i += kVectors * kLanes) {
    const Span<kVectors> span = LoadSpan<kType>(from, i);
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(span.v[v], AttentionTag(), to + SpanElement<kType>(i, v));
    }
  }
}

// to[0, n) = the first n elements of a stored row; n is a multiple of 16 and of
// the type's block.
inline void LoadHead(const std::byte* from, DType dtype, int64_t n, float* to) {
  WithKvType(dtype, [&](auto type) { LoadHeadOf<type>(from, n, to); });
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
