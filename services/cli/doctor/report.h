// Shows diagnoses as text and as JSON.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_REPORT_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_REPORT_H_

#include <google/protobuf/struct.pb.h>

#include <string>
#include <vector>

#include "services/cli/doctor/diagnosis.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

bool HasError(const std::vector<Diagnosis>& diagnoses);

// Returns one paragraph for each diagnosis: its state, its name and its
// finding, and below that the remedy after "fix: ". The last line counts the
// diagnoses.
std::string RenderReport(const std::vector<Diagnosis>& diagnoses,
                         const Style& style);

// {"ok": no error, "errors": N, "warnings": N, "checks": [{"name", "state",
// "found", "fix"}]}. A state is "ok", "skipped", "warning" or "error"; "fix" is
// absent if nothing must be done.
google::protobuf::Struct ReportObject(const std::vector<Diagnosis>& diagnoses);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_REPORT_H_
