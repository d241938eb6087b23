// Converts stored heads of keys and values to float32. Included once per
// instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ATTENTION_KV_LOAD_INL_H_
#endif

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

// Vectors of a stored head that are loaded together. Two vectors of a q8_0
// block share the work for its scale.
template <DType kType>
inline constexpr int kSpanVectors = kType == DType::kQ8_0 ? 2 : 1;

template <int kVectors>
struct Span {
  hn::Vec<hn::CappedTag<float, 16>> v[kVectors];
};

// Loads the vectors from element i on; i is a multiple of their elements. Every
// product of q8_0 is exact: 11 bits of scale, 7 of value.
template <DType kType>
HWY_INLINE Span<kSpanVectors<kType>> LoadSpan(const std::byte* from,
                                              int64_t i) {
  using D = hn::CappedTag<float, 16>;
  const D d;
  Span<kSpanVectors<kType>> span;
  if constexpr (kType == DType::kF32) {
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
    const std::byte* block = from + i / kQ80Elements * kQ80Bytes;
    const auto* quants =
        reinterpret_cast<const int8_t*>(block + 2) + i % kQ80Elements;
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
    default:
      return run(std::integral_constant<DType, DType::kF16>());
  }
}

template <DType kType>
void LoadHeadOf(const std::byte* from, int64_t n, float* to) {
  const hn::CappedTag<float, 16> d;
  constexpr int kVectors = kSpanVectors<kType>;
  constexpr auto kVectorElements = static_cast<int64_t>(hn::MaxLanes(d));
  for (int64_t i = 0; i < n; i += kVectors * kVectorElements) {
    const Span<kVectors> span = LoadSpan<kType>(from, i);
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(span.v[v], d, to + i + v * kVectorElements);
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
