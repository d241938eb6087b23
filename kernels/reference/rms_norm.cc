// Reference: root mean square normalisation, of rows or of what they are less
// their means.
#include <cmath>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

// The mean of the squares of x - mean.
double MeanSquare(const float* x, int64_t n, double mean) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum / static_cast<double>(n);
}

}  // namespace

void RmsNorm(const RmsNormArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float* x = args.x + r * args.XStride();
    float* out = args.out + r * args.dim;
    double mean = 0;
    for (int64_t c = 0; args.subtracts_mean && c < args.dim; ++c) {
      mean += double{x[c]} / static_cast<double>(args.dim);
    }
    double scale = 1.0 / std::sqrt(MeanSquare(x, args.dim, mean) + args.eps);
    if (args.like != nullptr) {
      scale *= std::sqrt(MeanSquare(args.like + r * args.dim, args.dim, 0));
    }
    for (int64_t c = 0; c < args.dim; ++c) {
      const double weight = args.weight == nullptr ? 1.0 : args.weight[c];
      const double y = (x[c] - mean) * scale * weight;
      const double sum_or_y = args.accumulate ? out[c] + y : y;
      out[c] = static_cast<float>(sum_or_y * args.scale);
    }
  }
}

}  // namespace plimsoll::kernels::reference
