// Multiplies every row by a factor of its own. A thread takes an element.
#include "base/status_macros.h"
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

// Block (x, y) takes the y-th kThreads columns of row x. `p.factors` is in
// device memory.
__global__ void ScaleEach(ScaleRowsArgs p) {
  WaitForKernelsBefore();
  const int64_t row = blockIdx.x;
  const int64_t c = int64_t{blockIdx.y} * kThreads + ThreadIndex();
  if (c >= p.dim) return;
  p.x[row * p.dim + c] *= p.factors[row];
}

}  // namespace

absl::Status ScaleRows(const Context& context, const ScaleRowsArgs& args) {
  if (args.n_rows == 0 || args.dim == 0) return absl::OkStatus();
  ScaleRowsArgs given = args;
  ASSIGN_OR_RETURN(given.factors,
                   context.queue->PutSpan(std::span<const float>(
                       args.factors, static_cast<size_t>(args.n_rows))));
  Launch(ScaleEach, {args.n_rows, (args.dim + kThreads - 1) / kThreads},
         kThreads, 0, context.queue, given);
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
