#include "services/cli/doctor/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal/bytes.h"
#include "services/host/check_threads.h"
#include "services/server/server.h"
#include "services/worker/process/worker_core.h"

namespace plimsoll::cli {
namespace {

// The soft limit of descriptors, which servers do not raise.
int64_t DescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  constexpr rlim_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMost));
}

}  // namespace

LimitReadings ReadLimits(const std::string& root) {
  const int n_threads = services::WorkerThreads(services::WorkerOptions(),
                                                services::GrpcThreads());
  return {.n_descriptors = DescriptorLimit(),
          .n_threads = n_threads,
          .threads = services::CheckThreads(n_threads),
          .tasks = worker::ReadCgroupTasks(root)};
}

Diagnosis CheckDescriptors(const LimitReadings& limits) {
  const int64_t n = limits.n_descriptors;
  Diagnosis found{.name = "open files",
                  .found = n == std::numeric_limits<int64_t>::max()
                               ? "no limit"
                               : absl::StrCat("at most ", FormatCount(n))};
  if (n >= kNeededDescriptors) return found;
  found.fix =
      absl::StrCat("ulimit -n ", kNeededDescriptors,
                   " before the start, or LimitNOFILE=", kNeededDescriptors,
                   " in the systemd unit");
  if (n < kOwnDescriptors) {
    found.health = Health::kError;
    absl::StrAppend(&found.found,
                    ", which is too few for a server and its models");
    return found;
  }
  found.health = Health::kWarning;
  absl::StrAppend(&found.found, ", so a server takes no more than ",
                  FormatCount(n - kOwnDescriptors),
                  " connections; it would take ",
                  FormatCount(kNeededDescriptors - kOwnDescriptors));
  return found;
}

Diagnosis CheckThreadLimit(const LimitReadings& limits) {
  Diagnosis found{.name = "threads"};
  const auto& tasks = limits.tasks;
  const std::string in_cgroup =
      tasks ? absl::StrCat(tasks->limit_file, " allows ",
                           FormatCount(tasks->limit), ", ",
                           FormatCount(tasks->used), " are in use")
            : "no cgroup limits them";
  if (limits.threads.ok()) {
    found.found = absl::StrCat("a worker's ", limits.n_threads,
                               " could be started; ", in_cgroup);
    return found;
  }
  found.health = Health::kError;
  found.found = absl::StrCat("a worker has ", limits.n_threads, ": ",
                             limits.threads.message(), "; ", in_cgroup);
  found.fix =
      "raise pids.max of the cgroup (systemd: TasksMax=, Docker: "
      "--pids-limit) or ulimit -u, or end other processes";
  return found;
}

}  // namespace plimsoll::cli
