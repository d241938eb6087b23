// Products in registers: integer dot products, of which each instruction path
// has its own form, and float multiply-adds.
#include "kernels/cpu/product_rate.h"

#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product_rate.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <atomic>

#include "hwy/highway.h"

// mat_mul.cc has the same attributes.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DI = hn::ScalableTag<int32_t>;
using VI = hn::Vec<DI>;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// Chains of products that do not wait for each other: two products a cycle,
// each some five cycles long.
constexpr int kChains = 12;
constexpr int64_t kRounds = 1 << 14;

// Ones, as wide as the path multiplies them.
HWY_INLINE VI Ones() {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3 || \
    HWY_TARGET == HWY_AVX2
  return hn::BitCast(DI(), hn::Set(hn::ScalableTag<int8_t>(), 1));
#else
  return hn::BitCast(DI(), hn::Set(hn::ScalableTag<int16_t>(), 1));
#endif
}

// sum += the dot products of a and b in each lane.
HWY_INLINE void AddProducts(VI a, VI b, VI& sum) {
#if HWY_TARGET == HWY_AVX3_DL
  sum.raw = _mm512_dpbusd_epi32(sum.raw, a.raw, b.raw);
#elif HWY_TARGET == HWY_AVX3
  sum.raw = _mm512_add_epi32(
      sum.raw, _mm512_madd_epi16(_mm512_maddubs_epi16(a.raw, b.raw),
                                 _mm512_set1_epi16(1)));
#elif HWY_TARGET == HWY_AVX2
  sum.raw = _mm256_add_epi32(
      sum.raw, _mm256_madd_epi16(_mm256_maddubs_epi16(a.raw, b.raw),
                                 _mm256_set1_epi16(1)));
#else
  const hn::ScalableTag<int16_t> ds;
  VI other = hn::Zero(DI());
  sum = hn::ReorderWidenMulAccumulate(DI(), hn::BitCast(ds, a),
                                      hn::BitCast(ds, b), sum, other);
  sum = hn::Add(sum, other);
#endif
}

// Hides from the compiler what `v` holds; otherwise it would multiply once.
template <class V>
HWY_INLINE void Forget(V& v) {
#if HWY_ARCH_X86
  asm volatile("" : "+x"(v.raw));
#elif HWY_ARCH_ARM
  asm volatile("" : "+w"(v.raw));
#else
  hwy::PreventElision(v);
#endif
}

}  // namespace

int64_t MultiplyOnesHere() {
  const VI a = Ones();
  VI b = Ones();
  VI sums[kChains];
  for (VI& sum : sums) sum = hn::Zero(DI());
  for (int64_t round = 0; round < kRounds; ++round) {
    Forget(b);
    HWY_UNROLL(kChains)
    for (int i = 0; i < kChains; ++i) AddProducts(a, b, sums[i]);
  }
  int64_t all = 0;
  for (const VI& sum : sums) all += hn::GetLane(hn::SumOfLanes(DI(), sum));
  return all;
}

int64_t MultiplyFloatOnesHere() {
  const VF a = hn::Set(DF(), 1.0f);
  VF b = a;
  VF sums[kChains];
  for (VF& sum : sums) sum = hn::Zero(DF());
  for (int64_t round = 0; round < kRounds; ++round) {
    Forget(b);
    HWY_UNROLL(kChains)
    for (int i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(a, b, sums[i]);
  }
  // Sums of ones are exact up to 2^24.
  int64_t all = 0;
  for (const VF& sum : sums) {
    all += static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(DF(), sum)));
  }
  return all;
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace plimsoll::kernels {

HWY_EXPORT(MultiplyOnesHere);
HWY_EXPORT(MultiplyFloatOnesHere);

namespace {

int64_t SumOfTasks(int64_t n_tasks, ThreadPool& pool, int64_t (*task)()) {
  std::atomic<int64_t> all = 0;
  pool.ParallelFor(n_tasks, 1, [&](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t i = begin; i < end; ++i) all += task();
  });
  return all;
}

}  // namespace

int64_t MultiplyOnes(int64_t n_tasks, ThreadPool& pool) {
  return SumOfTasks(n_tasks, pool,
                    [] { return HWY_DYNAMIC_DISPATCH(MultiplyOnesHere)(); });
}

int64_t MultiplyFloatOnes(int64_t n_tasks, ThreadPool& pool) {
  return SumOfTasks(n_tasks, pool, [] {
    return HWY_DYNAMIC_DISPATCH(MultiplyFloatOnesHere)();
  });
}

}  // namespace plimsoll::kernels
#endif  // HWY_ONCE
