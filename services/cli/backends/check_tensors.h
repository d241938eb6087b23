// Checks the values of all tensors of a model's file.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_TENSORS_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_TENSORS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/cli/backends/check.h"
#include "worker/device/model_file.h"

namespace plimsoll::cli {

// At most this many findings of a check are listed; further ones are only
// counted.
inline constexpr size_t kMaxFindings = 10;

// Called with the progress of the check before each chunk. Its error ends the
// check.
using ByteFence =
    std::function<absl::Status(int64_t bytes_done, int64_t bytes_total)>;

// Decodes every tensor, with `n_threads` threads. The check fails for values
// that are not finite or are larger than worker::kLargestWeight (factors of a
// rotation may be), and for matrices and norms that are zero. A bias or an
// expert that is zero, and a tensor whose type this build cannot read, are
// notes.
// Errors: those of ModelFile::Read and of `fence`; kDataLoss if the file
// changed meanwhile.
absl::StatusOr<Check> CheckTensors(worker::ModelFile& file, int n_threads,
                                   const ByteFence& fence);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_TENSORS_H_
