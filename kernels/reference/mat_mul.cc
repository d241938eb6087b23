// Reference: weights dequantised exactly, activations as given (or unpacked),
// products summed in double.
#include <cmath>
#include <cstring>
#include <vector>

#include "base/status_macros.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/packed_row.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

std::vector<double> UnpackRow(const std::byte* packed, int64_t dim) {
  std::vector<double> x(static_cast<size_t>(dim));
  for (int64_t c = 0; c < dim; ++c) {
    int16_t q;
    float scale;
    std::memcpy(&q, packed + 2 * c, sizeof(q));
    std::memcpy(&scale,
                packed + PackedScalesOffset(dim) + c / kActivationBlock * 4,
                sizeof(scale));
    x[static_cast<size_t>(c)] = static_cast<double>(q) * scale;
  }
  return x;
}

}  // namespace

absl::Status MatMul(const MatMulArgs& args) {
  const int64_t cols = args.w.cols;
  ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(args.w.dtype, cols));
  const bool is_packed = args.packed != nullptr && !IsFloatType(args.w.dtype);
  std::vector<std::vector<double>> x;
  for (int64_t m = 0; m < args.n_rows; ++m) {
    if (is_packed) {
      x.push_back(UnpackRow(args.packed + m * PackedRowBytes(cols), cols));
    } else {
      x.emplace_back(args.x + m * cols, args.x + (m + 1) * cols);
    }
  }
  const double scale = args.w.HostScale();
  std::vector<float> w(static_cast<size_t>(cols));
  for (int64_t r = 0; r < args.w.rows; ++r) {
    RETURN_IF_ERROR(DequantizeRow(args.w.dtype, args.w.data + r * row_bytes,
                                  cols, w.data()));
    for (int64_t m = 0; m < args.n_rows; ++m) {
      double sum = 0;
      for (size_t c = 0; c < w.size(); ++c) {
        sum += x[static_cast<size_t>(m)][c] * w[c];
      }
      sum *= scale;
      float& out = args.out[m * args.w.rows + r];
      if (args.soft_cap > 0) {
        sum = args.soft_cap * std::tanh(sum / args.soft_cap);
      }
      out = static_cast<float>(args.accumulate ? out + sum : sum);
    }
  }
  return absl::OkStatus();
}

absl::Status HeadMatMul(const HeadMatMulArgs& args) {
  for (int64_t i = 0; i < args.n_rows * args.n_heads; ++i) {
    RETURN_IF_ERROR(MatMul({.w = args.w.Of(i % args.n_heads),
                            .x = args.x + i * args.x_stride,
                            .packed = nullptr,
                            .out = args.out + i * args.out_stride,
                            .n_rows = 1,
                            .accumulate = false}));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::reference
