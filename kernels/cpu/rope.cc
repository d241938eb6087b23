// Rotation angles in double precision, and the rotation of heads.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Rotates pairs (p, p + n_pairs) if kIsNeox, else pairs (2p, 2p + 1).
template <bool kIsNeox>
void RotateHead(const float* x, const float* angles, int64_t n_pairs,
                float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= n_pairs; p += lanes) {
    hn::VFromD<decltype(d)> cosine;
    hn::VFromD<decltype(d)> sine;
    hn::VFromD<decltype(d)> a;
    hn::VFromD<decltype(d)> b;
    hn::LoadInterleaved2(d, angles + 2 * p, cosine, sine);
    if constexpr (kIsNeox) {
      a = hn::LoadU(d, x + p);
      b = hn::LoadU(d, x + p + n_pairs);
    } else {
      hn::LoadInterleaved2(d, x + 2 * p, a, b);
    }
    const auto first = hn::MulSub(a, cosine, hn::Mul(b, sine));
    const auto second = hn::MulAdd(a, sine, hn::Mul(b, cosine));
    if constexpr (kIsNeox) {
      hn::StoreU(first, d, out + p);
      hn::StoreU(second, d, out + p + n_pairs);
    } else {
      hn::StoreInterleaved2(first, second, d, out + 2 * p);
    }
  }
  for (; p < n_pairs; ++p) {
    const int64_t i = kIsNeox ? p : 2 * p;
    const int64_t j = kIsNeox ? p + n_pairs : 2 * p + 1;
    const float a = x[i];
    const float b = x[j];
    out[i] = a * angles[2 * p] - b * angles[2 * p + 1];
    out[j] = a * angles[2 * p + 1] + b * angles[2 * p];
  }
}

}  // namespace

void RopeRange(const RopeArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = begin * args.n_heads; i < end * args.n_heads; ++i) {
    const float* x = args.x + i * args.XStride();
    float* out = args.out + i * args.OutStride();
    const float* angles = args.angles + i / args.n_heads * args.n_rot;
    if (args.style == RopeStyle::kNeox) {
      RotateHead<true>(x, angles, args.n_rot / 2, out);
    } else {
      RotateHead<false>(x, angles, args.n_rot / 2, out);
    }
    if (out != x) {
      std::copy(x + args.n_rot, x + args.head_dim, out + args.n_rot);
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(RopeRange);

void Rope(const RopeArgs& args, ThreadPool& pool) {
  const int64_t grain = RowGrain(args.n_heads * args.head_dim);
  pool.ParallelFor(args.n_rows, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(RopeRange)(args, begin, end);
  });
}

// The mathematical library's sine reduces any argument exactly, so that a
// position of 10^9 is as good as the first one.
void RopeAngles(const RopeAnglesArgs& args, ThreadPool& pool) {
  const int64_t n_pairs = args.n_rot / 2;
  double frequencies[kMaxHeadDim / 2];
  double scales[kMaxHeadDim / 2];
  for (int64_t p = 0; p < n_pairs; ++p) {
    frequencies[p] = std::pow(args.base, -2.0 * static_cast<double>(p) /
                                             static_cast<double>(args.n_rot));
    scales[p] = args.ramp.ScaleOf(p, args.scale);
  }
  pool.ParallelFor(args.n_rows, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const auto position = static_cast<double>(args.positions[r]);
      float* out = args.out + r * args.n_rot;
      for (int64_t p = 0; p < n_pairs; ++p) {
        double theta = position * scales[p] * frequencies[p];
        if (args.freq_factors != nullptr) theta /= args.freq_factors[p];
        out[2 * p] = static_cast<float>(std::cos(theta) * args.magnitude);
        out[2 * p + 1] = static_cast<float>(std::sin(theta) * args.magnitude);
      }
    }
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
