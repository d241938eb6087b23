// Reference: root mean square normalisation, of rows or of what they are less
// their means.
#include <cmath>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void RmsNorm(const RmsNormArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float* x = args.x + r * args.dim;
    float* out = args.out + r * args.dim;
    double mean = 0;
    for (int64_t c = 0; args.subtracts_mean && c < args.dim; ++c) {
      mean += double{x[c]} / static_cast<double>(args.dim);
    }
    double sum = 0;
    for (int64_t c = 0; c < args.dim; ++c) {
      sum += (x[c] - mean) * (x[c] - mean);
    }
    const double scale =
        1.0 / std::sqrt(sum / static_cast<double>(args.dim) + args.eps);
    for (int64_t c = 0; c < args.dim; ++c) {
      const double weight = args.weight == nullptr ? 1.0 : args.weight[c];
      const double y = (x[c] - mean) * scale * weight;
      const double sum_or_y = args.accumulate ? out[c] + y : y;
      out[c] = static_cast<float>(sum_or_y * args.scale);
    }
  }
}

}  // namespace plimsoll::kernels::reference
