// Reference: the activation of the gate, times up.
#include <algorithm>
#include <cmath>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

double Gated(double gate, double up, Activation activation) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  switch (activation) {
    case Activation::kSilu:
      return gate / (1.0 + std::exp(-gate)) * up;
    case Activation::kGeluTanh:
      return 0.5 * gate *
             (1.0 + std::tanh(kSqrtTwoOverPi *
                              (gate + 0.044715 * gate * gate * gate))) *
             up;
    case Activation::kRelu:
      return (gate < 0 ? 0 : gate) * up;
    case Activation::kSigmoid:
      return up / (1.0 + std::exp(-gate));
    case Activation::kClampedSwish:
      break;
  }
  // With NaN as the first argument these functions return NaN.
  const double x = std::min<double>(gate, kSwishLimit);
  const double factor = std::clamp<double>(up, -kSwishLimit, kSwishLimit) + 1.0;
  return x / (1.0 + std::exp(-double{kSwishSlope} * x)) * factor;
}

}  // namespace

void GatedActivation(const GatedActivationArgs& args) {
  for (int64_t i = 0; i < args.n_rows * args.dim; ++i) {
    const int64_t row = i / args.dim;
    const int64_t c = i % args.dim;
    args.out[i] = static_cast<float>(
        Gated(args.gate[row * args.GateStride() + c],
              args.up[row * args.UpStride() + c], args.activation));
  }
}

}  // namespace plimsoll::kernels::reference
