// Checks servers at an address: whether they answer, and their own reports.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_SERVERS_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_SERVERS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plimsoll/v1/admin.pb.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/cli/doctor/diagnosis.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

// The answers of a planner.
struct PlannerReadings {
  v1::ListDevicesResponse devices;
  v1::ListLeasesResponse leases;
};
// Errors: those of the calls; kDeadlineExceeded after some seconds.
absl::StatusOr<PlannerReadings> ReadPlanner(const Endpoint& address);
absl::StatusOr<v1::GetLoadResponse> ReadWorker(const Endpoint& address);

// The diagnosis of a server without an address; `flag` is the flag for the
// address.
Diagnosis SkippedServer(absl::string_view name, absl::string_view flag);
Diagnosis CheckPlanner(const Endpoint& address,
                       const absl::StatusOr<PlannerReadings>& planner);
Diagnosis CheckWorker(const Endpoint& address,
                      const absl::StatusOr<v1::GetLoadResponse>& worker);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_SERVERS_H_
