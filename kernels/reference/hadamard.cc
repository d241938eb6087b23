// Reference: every element of a transform as the sum that defines it.
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

void Transform(int64_t width, float* x) {
  const std::vector<float> given(x, x + width);
  for (int64_t i = 0; i < width; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) {
      const double value = given[static_cast<size_t>(j)];
      sum +=
          std::popcount(static_cast<uint64_t>(i & j)) % 2 == 0 ? value : -value;
    }
    x[i] = static_cast<float>(sum / std::sqrt(static_cast<double>(width)));
  }
}

}  // namespace

void Hadamard(const HadamardArgs& args) {
  for (int64_t at = 0; at < args.n_rows * args.dim; at += args.width) {
    Transform(args.width, args.x + at);
  }
}

}  // namespace plimsoll::kernels::reference
