// The processes that have connected to a server by a Unix socket, as the kernel
// names them.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_LOCAL_PROCESSES_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_LOCAL_PROCESSES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/host/process_identity.h"

namespace plimsoll::services {

// A call does not know its connection, but it knows the class of its process
// (CallGuard::LocalClassOf). A call is refused if it names a process that never
// connected with the caller's rights. Thread-safe.
class LocalProcesses {
 public:
  // At most this many live processes are kept. Further ones are not recorded.
  static constexpr size_t kMaxProcesses = 4'096;

  // A process of `local_class` has connected. `pid` is 0 if this process's
  // namespace does not know it.
  void Add(size_t local_class, pid_t pid) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks whether a call of `local_class` may name `process` as its own.
  // Processes of another host or pid namespace cannot be compared, and are
  // accepted.
  // Errors: kPermissionDenied.
  absl::Status Check(size_t local_class, const ProcessIdentity& process) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Key = std::pair<size_t, pid_t>;  // the class and the process

  void ForgetEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::optional<ProcessIdentity> own_ = OwnIdentity();
  mutable absl::Mutex mu_;
  // Start times of the processes; absent if /proc does not tell.
  std::map<Key, std::optional<int64_t>> started_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_LOCAL_PROCESSES_H_
