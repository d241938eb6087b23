// Sums over a row. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_ROW_SUMS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_ROW_SUMS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_ROW_SUMS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two accumulators hide the latency; the order of additions depends on the
// lane count alone.
inline float Sum(const float* HWY_RESTRICT x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::Add(hn::LoadU(d, x + i), sum0);
    sum1 = hn::Add(hn::LoadU(d, x + i + lanes), sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// The sum of the squares of x - mean, in the same order. Taking a mean of zero
// away changes no bit of a square.
inline float SumOfSquares(const float* HWY_RESTRICT x, int64_t n, float mean) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto means = hn::Set(d, mean);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto x0 = hn::Sub(hn::LoadU(d, x + i), means);
    const auto x1 = hn::Sub(hn::LoadU(d, x + i + lanes), means);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_CPU_ROW_SUMS_INL_H_
