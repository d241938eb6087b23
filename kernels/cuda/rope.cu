// Rotation angles, in double, and the rotation of heads. A thread takes a pair.
#include "base/status_macros.h"
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rotate.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;

struct AngleParameters {
  int64_t n_rows;
  int64_t n_rot;
  double base;
  double scale;
  const float* freq_factors;
  float magnitude;
  float* out;
  RopeRamp ramp;
};

__global__ void ComputeAngles(AngleParameters p, const int64_t* positions) {
  WaitForKernelsBefore();
  const int64_t n_pairs = p.n_rot / 2;
  const int64_t i = GlobalIndex();
  if (i >= p.n_rows * n_pairs) return;
  const int64_t pair = i % n_pairs;
  double theta = static_cast<double>(positions[i / n_pairs]) *
                 p.ramp.ScaleOf(pair, p.scale) *
                 pow(p.base, -2.0 * static_cast<double>(pair) /
                                 static_cast<double>(p.n_rot));
  if (p.freq_factors != nullptr) {
    theta /= static_cast<double>(p.freq_factors[pair]);
  }
  const auto magnitude = static_cast<double>(p.magnitude);
  p.out[2 * i] = static_cast<float>(cos(theta) * magnitude);
  p.out[2 * i + 1] = static_cast<float>(sin(theta) * magnitude);
}

// The last threads of a head copy what is not rotated.
__global__ void RotateHeads(RopeArgs p) {
  WaitForKernelsBefore();
  const int64_t n_pairs = p.n_rot / 2;
  const int64_t per_head = n_pairs + (p.head_dim - p.n_rot);
  const int64_t i = GlobalIndex();
  if (i >= p.n_rows * p.n_heads * per_head) return;
  const int64_t head = i / per_head;
  const int64_t pair = i % per_head;
  const float* x = p.x + head * p.XStride();
  float* out = p.out + head * p.OutStride();
  if (pair >= n_pairs) {
    const int64_t c = p.n_rot + pair - n_pairs;
    out[c] = x[c];
    return;
  }
  const float* angles = p.angles + head / p.n_heads * p.n_rot;
  RotatePair(x, angles + 2 * pair, PairPlace(p.style, pair, n_pairs), out);
}

}  // namespace

absl::Status RopeAngles(const Context& context, const RopeAnglesArgs& args) {
  const int64_t n = args.n_rows * (args.n_rot / 2);
  if (n == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t* positions,
                   context.queue->PutSpan(std::span<const int64_t>(
                       args.positions, static_cast<size_t>(args.n_rows))));
  const AngleParameters parameters = {
      args.n_rows,       args.n_rot,     args.base, args.scale,
      args.freq_factors, args.magnitude, args.out,  args.ramp};
  Launch(ComputeAngles, {(n + kThreads - 1) / kThreads}, kThreads, 0,
         context.queue, parameters, positions);
  return absl::OkStatus();
}

void Rope(const Context& context, const RopeArgs& args) {
  const int64_t n =
      args.n_rows * args.n_heads * (args.head_dim - args.n_rot / 2);
  Launch(RotateHeads, {(n + kThreads - 1) / kThreads}, kThreads, 0,
         context.queue, args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
