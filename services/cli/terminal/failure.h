// What goes wrong, as exit codes and as lines for people.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_FAILURE_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_FAILURE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/plan.pb.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

// A command line that makes no sense; ends with kExitUsage.
absl::Status UsageError(absl::string_view message);
// Ctrl-C; ends with kExitInterrupted and says nothing.
absl::Status InterruptedError();
// A plan that does not fit: bytes wanted, there and missing, and what to try.
// Ends with kExitDoesNotFit.
absl::Status DoesNotFit(const v1::MemoryPlan& plan);
// The same for layers over devices with these names.
absl::Status DoesNotFit(const v1::PlanSplitResponse& split,
                        const std::vector<std::string>& names);
// The same code for a load that ran out of memory, with its own message.
absl::Status DoesNotFit(absl::string_view message);

// `status` for its exit code only: what it says stands in the output already.
absl::Status AlreadySaid(absl::Status status);

int ExitCodeOf(const absl::Status& status);

// Prints "plimsoll: message" to `streams.err`, and returns the exit code.
int Report(const absl::Status& status, Streams& streams);

// `status` with `prefix` in front of its message, details kept.
absl::Status Prefixed(absl::string_view prefix, const absl::Status& status);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_FAILURE_H_
