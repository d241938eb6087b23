// Converts the rows of one tensor of a checkpoint to rows of a GGUF file.
#ifndef PLIMSOLL_SERVICES_CONVERT_ROW_CONVERTER_H_
#define PLIMSOLL_SERVICES_CONVERT_ROW_CONVERTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "kernels/cpu/thread_pool.h"

namespace plimsoll::services {

// The conversion of the rows.
struct RowPlan {
  int64_t rows;
  int64_t cols;  // whole blocks of `to`
  DType from;    // F32, F16 or BF16
  DType to;
  bool adds_one = false;  // adds 1 to every element
  // The number of rows of a head; 0 if no rows change places. The first `n_rot`
  // rows of each head change places by planner::SourceRow.
  int64_t head_dim = 0;
  int64_t n_rot = 0;
};

// Rows go through a buffer of a few megabytes, so memory does not grow with the
// tensor. Threads of the pool share its rows. Not thread-safe.
class RowConverter {
 public:
  explicit RowConverter(kernels::ThreadPool& pool) : pool_(pool) {}

  // Fills `out` from byte `offset` of the tensor in the checkpoint.
  using ReadBytes =
      std::function<absl::Status(int64_t offset, std::span<std::byte> out)>;
  // Takes the next bytes of the tensor in the file.
  using WriteBytes = std::function<absl::Status(std::span<const std::byte>)>;

  // Converts all rows, in the file's order.
  // Errors: those of `read` and `write`; those of QuantizeRow, with the row.
  absl::Status Convert(const RowPlan& plan, const ReadBytes& read,
                       const WriteBytes& write);

 private:
  absl::Status ReadRows(const RowPlan& plan, int64_t begin, int64_t n,
                        const ReadBytes& read);
  absl::Status Quantize(const RowPlan& plan, int64_t begin, int64_t n);

  kernels::ThreadPool& pool_;
  std::vector<std::byte> source_;  // rows as the checkpoint has them
  std::vector<std::byte> result_;  // the same rows as the file has them
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_ROW_CONVERTER_H_
