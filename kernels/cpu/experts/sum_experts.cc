// Adds the products of each row's experts and their biases, times their
// weights, in the order of the choice.
#include "kernels/cpu/experts/sum_experts.h"
//
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/experts/sum_experts.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;

// Columns [c, c + lanes) of the sum of row `row`, which begins with `sum`.
// `load` loads these columns of a row of products or biases.
template <class Load>
HWY_INLINE hn::Vec<DF> SumColumns(const ExpertSumMatMulArgs& args, int64_t row,
                                  hn::Vec<DF> sum, const Load& load) {
  const int64_t dim = args.w.first.rows;
  const int64_t first = row * args.rows.n_used;
  for (int64_t i = first; i < first + args.rows.n_used; ++i) {
    auto output = load(args.products + args.rows.places[i] * dim);
    if (args.bias != nullptr) {
      output = hn::Add(output, load(args.bias + args.rows.experts[i] * dim));
    }
    const float weight = args.weights_outputs ? args.rows.weights[i] : 1.0f;
    sum = hn::MulAdd(hn::Set(DF(), weight), output, sum);
  }
  return sum;
}

void SumRow(const ExpertSumMatMulArgs& args, int64_t row) {
  const DF d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t dim = args.w.first.rows;
  float* const out = args.out + row * dim;
  int64_t c = 0;
  for (; c + lanes <= dim; c += lanes) {
    const auto begin = args.accumulate ? hn::LoadU(d, out + c) : hn::Zero(d);
    const auto load = [&](const float* from)
                          HWY_ATTR { return hn::LoadU(d, from + c); };
    hn::StoreU(SumColumns(args, row, begin, load), d, out + c);
  }
  if (c == dim) return;
  const auto bytes = static_cast<size_t>(dim - c) * sizeof(float);
  const auto load = [&](const float* from) HWY_ATTR {
    float columns[16] = {};
    std::memcpy(columns, from + c, bytes);
    return hn::LoadU(d, columns);
  };
  const auto begin = args.accumulate ? load(out) : hn::Zero(d);
  float columns[16];
  hn::StoreU(SumColumns(args, row, begin, load), d, columns);
  std::memcpy(out + c, columns, bytes);
}

void SumRows(const ExpertSumMatMulArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) SumRow(args, row);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(SumRows);

void SumExperts(const ExpertSumMatMulArgs& args, ThreadPool& pool) {
  const int64_t grain = RowGrain(args.rows.n_used * args.w.first.rows);
  pool.ParallelFor(args.rows.n_rows, grain,
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(SumRows)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
