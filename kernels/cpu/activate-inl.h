// The functions that gate a feed-forward network. Included once per instruction
// path.
#if defined(PLIMSOLL_KERNELS_CPU_ACTIVATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ACTIVATE_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ACTIVATE_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ACTIVATE_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/backend.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x / (1 + exp(-t)). With t = x this is SiLU. GELU, 0.5 x (1 + tanh(u)), is
// this with t = 2u; the form keeps the relative error small on both sides.
template <class D, class V>
HWY_INLINE V TimesSigmoid(D d, V x, V t) {
  // exp(88) is finite, and x over it is zero for all purposes.
  const V exponent = hn::Min(hn::Neg(t), hn::Set(d, 88.0f));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Exp(d, exponent)));
}

template <class D, class V>
HWY_INLINE V TanhGelu(D d, V x) {
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
  const V square = hn::Mul(x, x);
  const V inner = hn::MulAdd(hn::Set(d, 0.044715f * kTwoSqrtTwoOverPi), square,
                             hn::Set(d, kTwoSqrtTwoOverPi));
  return TimesSigmoid(d, x, hn::Mul(x, inner));
}

template <class D, class V>
HWY_INLINE V ClampedSwish(D d, V gate, V up) {
  // Instructions for a minimum do not agree about NaN.
  const V limit = hn::Set(d, kSwishLimit);
  const V least = hn::Neg(limit);
  const V x = hn::IfThenElse(hn::Gt(gate, limit), limit, gate);
  const V below = hn::IfThenElse(hn::Gt(up, limit), limit, up);
  const V factor = hn::IfThenElse(hn::Lt(up, least), least, below);
  return hn::Mul(TimesSigmoid(d, x, hn::Mul(x, hn::Set(d, kSwishSlope))),
                 hn::Add(factor, hn::Set(d, 1.0f)));
}

// The activation of `gate`, times `up`.
template <class D, class V>
HWY_INLINE V Gated(D d, V gate, V up, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return hn::Mul(TimesSigmoid(d, gate, gate), up);
    case Activation::kGeluTanh:
      return hn::Mul(TanhGelu(d, gate), up);
    case Activation::kRelu:
      return hn::Mul(
          hn::IfThenElse(hn::Lt(gate, hn::Zero(d)), hn::Zero(d), gate), up);
    case Activation::kSigmoid:
      // The minimum and the exponential would hide a NaN.
      return hn::IfThenElse(hn::IsNaN(gate), gate, TimesSigmoid(d, up, gate));
    case Activation::kClampedSwish:
      break;
  }
  return ClampedSwish(d, gate, up);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_CPU_ACTIVATE_INL_H_
