// Reference: rotation angles and the rotation of heads.
#include <algorithm>
#include <cmath>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void RopeAngles(const RopeAnglesArgs& args) {
  const int64_t n_pairs = args.n_rot / 2;
  for (int64_t r = 0; r < args.n_rows; ++r) {
    for (int64_t p = 0; p < n_pairs; ++p) {
      double theta = static_cast<double>(args.positions[r]) *
                     args.ramp.ScaleOf(p, args.scale) *
                     std::pow(args.base, -2.0 * static_cast<double>(p) /
                                             static_cast<double>(args.n_rot));
      if (args.freq_factors != nullptr) theta /= args.freq_factors[p];
      float* out = args.out + 2 * (r * n_pairs + p);
      out[0] = static_cast<float>(std::cos(theta) * args.magnitude);
      out[1] = static_cast<float>(std::sin(theta) * args.magnitude);
    }
  }
}

void Rope(const RopeArgs& args) {
  const int64_t n_pairs = args.n_rot / 2;
  const bool is_neox = args.style == RopeStyle::kNeox;
  for (int64_t i = 0; i < args.n_rows * args.n_heads; ++i) {
    const float* x = args.x + i * args.XStride();
    float* out = args.out + i * args.OutStride();
    const float* angles = args.angles + i / args.n_heads * args.n_rot;
    for (int64_t p = 0; p < n_pairs; ++p) {
      const int64_t first = is_neox ? p : 2 * p;
      const int64_t second = is_neox ? p + n_pairs : 2 * p + 1;
      const double a = x[first];
      const double b = x[second];
      const double cosine = angles[2 * p];
      const double sine = angles[2 * p + 1];
      out[first] = static_cast<float>(a * cosine - b * sine);
      out[second] = static_cast<float>(a * sine + b * cosine);
    }
    if (out != x)
      std::copy(x + args.n_rot, x + args.head_dim, out + args.n_rot);
  }
}

}  // namespace plimsoll::kernels::reference
