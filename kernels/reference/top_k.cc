// Reference: the largest logits by sorting, and the log of the sum of
// exponentials in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

// The largest logit, or NaN if any is not finite.
double Largest(const float* logits, int64_t n) {
  double max = -HUGE_VAL;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(logits[i])) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    max = std::max(max, static_cast<double>(logits[i]));
  }
  return max;
}

double MassOf(const float* logits, int64_t n, double max, double inverse) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp((logits[i] - max) * inverse);
  return sum;
}

}  // namespace

void TopK(const TopKArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float* logits = args.logits + r * args.n;
    const double max = Largest(logits, args.n);
    args.log_sum_exp[r] = max + std::log(MassOf(logits, args.n, max, 1));
    if (args.masses != nullptr) {
      const auto inverse = static_cast<double>(args.inverse_temperatures[r]);
      args.masses[r] = MassOf(logits, args.n, max, inverse);
    }
    std::vector<int32_t> ids(static_cast<size_t>(args.n));
    std::iota(ids.begin(), ids.end(), 0);
    // NaN counts as the smallest value, so that the order is a total one.
    const auto key = [&](int32_t id) {
      return std::isnan(logits[id]) ? -HUGE_VALF : logits[id];
    };
    std::partial_sort(ids.begin(), ids.begin() + args.k, ids.end(),
                      [&](int32_t a, int32_t b) {
                        if (key(a) != key(b)) return key(a) > key(b);
                        return a < b;
                      });
    for (int64_t i = 0; i < args.k; ++i) {
      args.ids[r * args.k + i] = ids[static_cast<size_t>(i)];
      args.values[r * args.k + i] = key(ids[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace plimsoll::kernels::reference
