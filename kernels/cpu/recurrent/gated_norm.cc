// A norm of each group of a row, and a gate before or after it.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/gated_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cmath>

#include "hwy/highway.h"
#include "kernels/cpu/activate-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/cpu/row_sums-inl.h"
#include "kernels/quant/packed_row.h"
#include "kernels/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void PackBlocks(const PackActivationsArgs& args, int64_t begin, int64_t end);

namespace {

// Calls fn(d, c) for columns [0, n), as many at a time as `d` has lanes.
template <class Function>
HWY_INLINE void ForColumns(int64_t n, const Function& fn) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) fn(d, c);
  for (; c < n; ++c) fn(one, c);
}

// out = x * silu(gate), for `n` elements.
void Gate(const float* x, const float* gate, int64_t n, float* out) {
  ForColumns(n, [=](auto d, int64_t c) HWY_ATTR {
    const auto y = hn::LoadU(d, gate + c);
    hn::StoreU(hn::Mul(hn::LoadU(d, x + c), TimesSigmoid(d, y, y)), d, out + c);
  });
}

void Scale(const float* x, const float* weight, float scale, int64_t n,
           float* out) {
  ForColumns(n, [=](auto d, int64_t c) HWY_ATTR {
    const auto y = hn::Mul(hn::LoadU(d, x + c), hn::Set(d, scale));
    hn::StoreU(hn::Mul(y, hn::LoadU(d, weight + c)), d, out + c);
  });
}

}  // namespace

// Norms rows [begin, end).
void GatedNormRange(const GatedNormArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.dim;
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t group = 0; group < args.n_groups; ++group) {
      const int64_t at = r * args.RowFloats() + group * dim;
      const float* const gate = args.gate + r * args.gate_stride + group * dim;
      const float* x = args.x + at;
      float* const out = args.out + at;
      if (args.gates_first) {
        Gate(x, gate, dim, out);
        x = out;
      }
      const float square =
          SumOfSquares(x, dim, /*mean=*/0) / static_cast<float>(dim);
      Scale(x, args.weight + args.WeightAt(group),
            1.0f / std::sqrt(square + args.eps), dim, out);
      if (!args.gates_first) Gate(out, gate, dim, out);
    }
    if (args.packed == nullptr) continue;
    const int64_t n_blocks = args.RowFloats() / kActivationBlock;
    PackBlocks({args.out, args.n_rows, args.RowFloats(), args.packed},
               r * n_blocks, (r + 1) * n_blocks);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(GatedNormRange);

void GatedNorm(const GatedNormArgs& args, ThreadPool& pool) {
  const int64_t grain = RowGrain(args.RowFloats());
  pool.ParallelFor(
      args.n_rows,
      args.packed == nullptr ? grain : PackingGrain(args.n_rows, grain),
      [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(GatedNormRange)(args, begin, end);
      });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
