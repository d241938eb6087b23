// Gathers rows of a table and scales them. A thread takes one element.
#include "base/status_macros.h"
#include "kernels/cuda/mat_mul/weights.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

template <DType kType>
__global__ void GatherRows(DeviceMatrix table, const int32_t* tokens,
                           int64_t n_rows, float scale, bool accumulate,
                           float* out) {
  WaitForKernelsBefore();
  const int64_t i = GlobalIndex();
  if (i >= n_rows * table.cols) return;
  const float value =
      Element<kType>(table, tokens[i / table.cols], i % table.cols);
  const float scaled = value * scale;
  out[i] = accumulate ? out[i] + scaled : scaled;
}

}  // namespace

absl::Status GetRows(const Context& context, const GetRowsArgs& args) {
  const int64_t n = args.n_rows * args.table.cols;
  if (n == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int32_t* tokens,
                   context.queue->PutSpan(std::span<const int32_t>(
                       args.tokens, static_cast<size_t>(args.n_rows))));
  const DeviceMatrix table = MatrixOf(args.table);
  WithType(args.table.dtype, [&](auto type) {
    Launch(GatherRows<decltype(type)::value>, {(n + kThreads - 1) / kThreads},
           kThreads, 0, context.queue, table, tokens, args.n_rows, args.scale,
           args.accumulate, args.out);
  });
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
