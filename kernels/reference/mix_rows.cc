// Reference: sums of arrays, in which every row has weights of its own.
#include <array>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void MixRows(const MixRowsArgs& args) {
  const int64_t n = args.n_rows * args.dim;
  std::array<double, kMaxMixed> given;
  for (int64_t at = 0; at < n; ++at) {
    const double minus = args.minus == nullptr ? 0.0 : args.minus[at];
    for (int64_t j = 0; j < args.n_in; ++j) {
      given[static_cast<size_t>(j)] = args.y[j * n + at] - minus;
    }
    for (int64_t i = 0; i < args.n_out; ++i) {
      double sum = args.x == nullptr ? 0.0 : args.x[i * n + at];
      for (int64_t j = 0; j < args.n_in; ++j) {
        const double weight = args.WeightOf(at / args.dim, i, j);
        sum += weight * given[static_cast<size_t>(j)];
      }
      args.out[i * n + at] = static_cast<float>(sum);
    }
  }
}

}  // namespace plimsoll::kernels::reference
