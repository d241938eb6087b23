// Reference: gathers rows of a table and scales them.
#include <vector>

#include "base/status_macros.h"
#include "kernels/quant/dequantize.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

absl::Status GetRows(const GetRowsArgs& args) {
  ASSIGN_OR_RETURN(const int64_t row_bytes,
                   RowBytes(args.table.dtype, args.table.cols));
  std::vector<float> row(static_cast<size_t>(args.table.cols));
  for (int64_t r = 0; r < args.n_rows; ++r) {
    float* out = args.out + r * args.table.cols;
    RETURN_IF_ERROR(DequantizeRow(args.table.dtype,
                                  args.table.data + args.tokens[r] * row_bytes,
                                  args.table.cols, row.data()));
    for (const float value : row) {
      const float scaled = value * args.scale;
      *out = args.accumulate ? *out + scaled : scaled;
      ++out;
    }
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::reference
