// Turns errors into exit codes and messages.
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

// The error of an invalid command line; exits with kExitUsage.
absl::Status UsageError(absl::string_view message);
// The error after Ctrl-C; exits with kExitInterrupted and prints nothing.
absl::Status InterruptedError();
bool IsInterruptedError(const absl::Status& status);
// The error of a plan that does not fit, with the bytes wanted, available and
// missing, and what to try. Exits with kExitDoesNotFit.
absl::Status DoesNotFit(const v1::MemoryPlan& plan);
// The error of a split over devices with these names that does not fit.
absl::Status DoesNotFit(const v1::PlanSplitResponse& split,
                        const std::vector<std::string>& names);
// The error of a load that ran out of memory, with its own message. Exits with
// kExitDoesNotFit.
absl::Status DoesNotFit(absl::string_view message);

// Keeps only the exit code of `status`: the output already has the message.
absl::Status AlreadySaid(absl::Status status);

int ExitCodeOf(const absl::Status& status);

// Prints "plimsoll: message" to `streams.err` and returns the exit code.
int Report(const absl::Status& status, Streams& streams);

// Puts `prefix` in front of the message of `status` and keeps its details.
absl::Status Prefixed(absl::string_view prefix, const absl::Status& status);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_FAILURE_H_
