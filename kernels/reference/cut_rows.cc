// Reference: rows are cut some standard deviations above their means.
#include <cmath>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void CutRows(const CutRowsArgs& args) {
  const auto n = static_cast<double>(args.dim);
  for (int64_t r = 0; r < args.n_rows; ++r) {
    float* x = args.x + r * args.dim;
    double sum = 0;
    for (int64_t c = 0; c < args.dim; ++c) sum += x[c];
    const double mean = sum / n;
    double squares = 0;
    for (int64_t c = 0; c < args.dim; ++c) {
      squares += (x[c] - mean) * (x[c] - mean);
    }
    const double cut = mean + args.deviations * std::sqrt(squares / n);
    for (int64_t c = 0; c < args.dim; ++c) {
      const double above = x[c] - cut;
      x[c] = above < 0 ? 0.0f : static_cast<float>(above);
    }
  }
}

}  // namespace plimsoll::kernels::reference
