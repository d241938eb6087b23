// Checks a model's file: its tensors, its tokenizer, and whether its results
// are sane.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_VERIFY_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_VERIFY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/backends/check.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

struct VerifyOptions {
  bool has_forward = true;  // runs forward passes
  int n_threads = 0;        // 0: as many as this process may use
};

// Runs all checks, in this order: "header", "tensors", "tokenizer", "forward
// exact", "forward default", "sanity". Progress goes to `streams.err`. The
// forward passes are skipped, with notes, if tensors or tokenizer are not
// sound, or if the model cannot run here.
// Errors: those of OpenModel, CheckTensors and CheckForward.
absl::StatusOr<std::vector<Check>> Verify(const std::string& model,
                                          const VerifyOptions& options,
                                          Streams& streams);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_VERIFY_H_
