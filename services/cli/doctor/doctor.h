// All checks of `plimsoll doctor`, in the order in which they are shown.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_DOCTOR_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_DOCTOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/doctor/diagnosis.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

// Checks this machine, the servers of `globals`, and `models`. If `models` is
// empty, the models of the cache are checked.
// Errors: InterruptedError.
absl::StatusOr<std::vector<Diagnosis>> Diagnose(
    const std::vector<std::string>& models, const GlobalFlags& globals);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_DOCTOR_H_
