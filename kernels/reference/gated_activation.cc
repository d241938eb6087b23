// Reference: SiLU or tanh-GELU of the gate, times up.
#include <cmath>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void GatedActivation(const GatedActivationArgs& args) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  for (int64_t i = 0; i < args.n_rows * args.dim; ++i) {
    const double x = args.gate[i];
    const float up = args.up[i / args.dim * args.UpStride() + i % args.dim];
    const double activated =
        args.activation == Activation::kSilu
            ? x / (1.0 + std::exp(-x))
            : 0.5 * x *
                  (1.0 +
                   std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
    args.out[i] = static_cast<float>(activated * up);
  }
}

}  // namespace plimsoll::kernels::reference
