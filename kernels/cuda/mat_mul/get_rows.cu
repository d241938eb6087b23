// Gathers rows of a table and scales them. A thread takes one element. Rows of
// a table in the host's memory are gathered there, and come as floats.
#include <vector>

#include "base/status_macros.h"
#include "kernels/cuda/mat_mul/weights.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/quant/dequantize.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

// Bytes of floats that are taken to the device together.
constexpr int64_t kHostPieceBytes = int64_t{1} << 20;

__device__ void Place(float value, float scale, bool accumulate, float& out) {
  const float scaled = value * scale;
  out = accumulate ? out + scaled : scaled;
}

template <DType kType>
__global__ void GatherRows(DeviceMatrix table, const int32_t* tokens,
                           int64_t n_rows, float scale, bool accumulate,
                           float* out) {
  WaitForKernelsBefore();
  const int64_t i = GlobalIndex();
  if (i >= n_rows * table.cols) return;
  Place(Element<kType>(table, tokens[i / table.cols], i % table.cols), scale,
        accumulate, out[i]);
}

__global__ void PlaceRows(const float* rows, int64_t n, float scale,
                          bool accumulate, float* out) {
  WaitForKernelsBefore();
  const int64_t i = GlobalIndex();
  if (i < n) Place(rows[i], scale, accumulate, out[i]);
}

constexpr bool HasMinimum(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K ||
         type == DType::kQ5_K || type == DType::kQ2_K;
}

// The values of a row as Element gives them. It adds 0 where a quantised type
// has no minimum, so that there is no -0.
absl::Status ReadRow(const WeightMatrix& table, int64_t row_bytes, int32_t row,
                     float* out) {
  const DType type = table.dtype;
  RETURN_IF_ERROR(
      DequantizeRow(type, table.data + row * row_bytes, table.cols, out));
  if (IsFloatType(type) || IsGridType(type) || HasMinimum(type)) {
    return absl::OkStatus();
  }
  for (int64_t c = 0; c < table.cols; ++c) out[c] += 0.0f;
  return absl::OkStatus();
}

int64_t Blocks(int64_t n) { return (n + kThreads - 1) / kThreads; }

// Takes rows of a table that lies in the host's memory, in the file's order.
absl::Status GetHostRows(const Context& context, const GetRowsArgs& args) {
  const WeightMatrix& table = args.table;
  const int64_t cols = table.cols;
  ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(table.dtype, cols));
  const int64_t piece_rows =
      kHostPieceBytes / (cols * static_cast<int64_t>(sizeof(float))) + 1;
  std::vector<float>& rows = *context.host_rows;
  for (int64_t first = 0; first < args.n_rows; first += piece_rows) {
    const int64_t left = args.n_rows - first;
    const int64_t n_rows = left < piece_rows ? left : piece_rows;
    const int64_t n = n_rows * cols;
    rows.resize(static_cast<size_t>(n));
    for (int64_t r = 0; r < n_rows; ++r) {
      RETURN_IF_ERROR(ReadRow(table, row_bytes, args.tokens[first + r],
                              rows.data() + r * cols));
    }
    ASSIGN_OR_RETURN(const float* put,
                     context.queue->PutSpan(std::span<const float>(rows)));
    Launch(PlaceRows, {Blocks(n)}, kThreads, 0, context.queue, put, n,
           args.scale, args.accumulate, args.out + first * cols);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GetRows(const Context& context, const GetRowsArgs& args) {
  const int64_t n = args.n_rows * args.table.cols;
  if (n == 0) return absl::OkStatus();
  if (args.table.order == WeightOrder::kFile) return GetHostRows(context, args);
  ASSIGN_OR_RETURN(const int32_t* tokens,
                   context.queue->PutSpan(std::span<const int32_t>(
                       args.tokens, static_cast<size_t>(args.n_rows))));
  const DeviceMatrix table = MatrixOf(args.table);
  WithType(args.table.dtype, [&](auto type) {
    Launch(GatherRows<decltype(type)::value>, {Blocks(n)}, kThreads, 0,
           context.queue, table, tokens, args.n_rows, args.scale,
           args.accumulate, args.out);
  });
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
