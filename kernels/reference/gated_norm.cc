// Reference: a norm of each group of a row, and a gate before or after it.
#include <cmath>
#include <vector>

#include "kernels/recurrent.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void GatedNorm(const GatedNormArgs& args) {
  std::vector<double> y(static_cast<size_t>(args.dim));
  for (int64_t i = 0; i < args.n_rows * args.n_groups; ++i) {
    const int64_t group = i % args.n_groups;
    const float* const x = args.x + i * args.dim;
    const float* const gates =
        args.gate + i / args.n_groups * args.gate_stride + group * args.dim;
    const auto gate = [gates](int64_t c) {
      return gates[c] / (1.0 + std::exp(-double{gates[c]}));
    };
    double sum = 0;
    for (int64_t c = 0; c < args.dim; ++c) {
      double& value = y[static_cast<size_t>(c)];
      value = args.gates_first ? x[c] * gate(c) : x[c];
      sum += value * value;
    }
    const double scale =
        1.0 / std::sqrt(sum / static_cast<double>(args.dim) + args.eps);
    for (int64_t c = 0; c < args.dim; ++c) {
      const double weight = args.weight[args.WeightAt(group) + c];
      const double normed = y[static_cast<size_t>(c)] * scale * weight;
      args.out[i * args.dim + c] =
          static_cast<float>(args.gates_first ? normed : normed * gate(c));
    }
  }
}

}  // namespace plimsoll::kernels::reference
