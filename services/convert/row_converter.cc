#include "services/convert/row_converter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/quantize.h"
#include "planner/model/checkpoint_names.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kBufferBytes = 4 << 20;  // room for rows of the checkpoint

size_t Unsigned(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

absl::Status RowConverter::Convert(const RowPlan& plan, const ReadBytes& read,
                                   const WriteBytes& write) {
  ASSIGN_OR_RETURN(const int64_t from_bytes, RowBytes(plan.from, plan.cols));
  ASSIGN_OR_RETURN(const int64_t to_bytes, RowBytes(plan.to, plan.cols));
  const int64_t most =
      std::max<int64_t>(kBufferBytes / std::max<int64_t>(from_bytes, 1), 1);
  for (int64_t begin = 0; begin < plan.rows; begin += most) {
    const int64_t n = std::min(most, plan.rows - begin);
    source_.resize(Unsigned(n * from_bytes));
    result_.resize(Unsigned(n * to_bytes));
    RETURN_IF_ERROR(ReadRows(plan, begin, n, read));
    RETURN_IF_ERROR(Quantize(plan, begin, n));
    RETURN_IF_ERROR(write(result_));
  }
  return absl::OkStatus();
}

absl::Status RowConverter::ReadRows(const RowPlan& plan, int64_t begin,
                                    int64_t n, const ReadBytes& read) {
  const int64_t row_bytes = static_cast<int64_t>(source_.size()) / n;
  if (plan.head_dim == 0) return read(begin * row_bytes, source_);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row =
        planner::SourceRow(begin + i, plan.head_dim, plan.n_rot);
    RETURN_IF_ERROR(read(row * row_bytes,
                         std::span(source_).subspan(Unsigned(i * row_bytes),
                                                    Unsigned(row_bytes))));
  }
  return absl::OkStatus();
}

absl::Status RowConverter::Quantize(const RowPlan& plan, int64_t begin,
                                    int64_t n) {
  const int64_t from_bytes = static_cast<int64_t>(source_.size()) / n;
  const int64_t to_bytes = static_cast<int64_t>(result_.size()) / n;
  // The first error that each thread finds.
  std::vector<absl::Status> errors(Unsigned(pool_.n_threads()));
  const auto convert = [&](int64_t first, int64_t end, int thread) {
    std::vector<float> values(Unsigned(plan.cols));
    for (int64_t row = first; row < end; ++row) {
      absl::Status status =
          kernels::DequantizeRow(plan.from, source_.data() + row * from_bytes,
                                 plan.cols, values.data());
      if (plan.adds_one) {
        for (float& value : values) value += 1;
      }
      status.Update(kernels::QuantizeRow(plan.to, values.data(), plan.cols,
                                         result_.data() + row * to_bytes));
      if (status.ok()) continue;
      errors[Unsigned(thread)].Update(absl::Status(
          status.code(),
          absl::StrCat("row ", begin + row, ": ", status.message())));
    }
  };
  // A task is some thousand elements, so that short rows cost no time.
  constexpr int64_t kTaskElements = 16'384;
  pool_.ParallelFor(n, std::max<int64_t>(kTaskElements / plan.cols, 1),
                    convert);
  for (const absl::Status& error : errors) RETURN_IF_ERROR(error);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
