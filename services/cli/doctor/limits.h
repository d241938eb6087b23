// Limits of this user and cgroup that a server may run into: open files and
// threads.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_LIMITS_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "services/cli/doctor/diagnosis.h"
#include "services/http/http_server.h"
#include "services/http/metrics_server.h"
#include "worker/device/cgroup.h"

namespace plimsoll::cli {

// Descriptors of a server beside its connections. A worker with two models has
// 10. A planner has one more for each process that it watches.
inline constexpr int64_t kOwnDescriptors = 64;
// The number of descriptors that a server needs for all of its connections.
inline constexpr int64_t kNeededDescriptors =
    kOwnDescriptors +
    static_cast<int64_t>(services::HttpLimits().connections +
                         services::MetricsServer::kMaxConnections);

struct LimitReadings {
  int64_t n_descriptors = 0;  // the most open descriptors
  int64_t n_threads = 0;      // threads of a worker with one model
  // OK if the system gave n_threads threads.
  absl::Status threads = absl::OkStatus();
  std::optional<worker::CgroupTasks> tasks = {};
};

// Starts as many threads as a worker has and ends them, which takes
// milliseconds. `root` is put in front of every path that is read, for tests.
LimitReadings ReadLimits(const std::string& root = "");

Diagnosis CheckDescriptors(const LimitReadings& limits);
Diagnosis CheckThreadLimit(const LimitReadings& limits);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_LIMITS_H_
