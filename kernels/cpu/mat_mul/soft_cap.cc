// Soft-caps the outputs of a product: cap * tanh(output / cap).
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/soft_cap.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Caps elements [begin, end) of all rows. Elements that are kNotComputed stay
// so.
void SoftCapRange(const MatMulArgs& args, int64_t begin, int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto cap = hn::Set(d, args.soft_cap);
  const auto not_computed = hn::Set(d, kNotComputed);
  const auto capped = [&](const float* from) {
    const auto x = hn::LoadU(d, from);
    const auto y = hn::Mul(cap, hn::Tanh(d, hn::Div(x, cap)));
    return hn::IfThenElse(hn::Eq(x, not_computed), x, y);
  };
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    hn::StoreU(capped(args.out + i), d, args.out + i);
  }
  if (i == end) return;
  // The tail goes through the same vector operations: a value must not depend
  // on where in the call it stands.
  float tail[16] = {};
  const auto bytes = static_cast<size_t>(end - i) * sizeof(float);
  std::memcpy(tail, args.out + i, bytes);
  hn::StoreU(capped(tail), d, tail);
  std::memcpy(args.out + i, tail, bytes);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(SoftCapRange);

void SoftCap(const MatMulArgs& args, ThreadPool& pool) {
  constexpr int64_t kGrain = 4096;
  pool.ParallelFor(args.n_rows * args.w.rows, kGrain,
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(SoftCapRange)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
