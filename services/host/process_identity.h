// An identity names a process so that another process on the same host can tell
// when the named process has ended.
#ifndef PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_
#define PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// A pid alone may be used again. A pid with the start time of the process, the
// boot of the host and the namespace is unique.
struct ProcessIdentity {
  static constexpr size_t kMaxBootIdBytes = 64;

  int64_t pid = 0;
  int64_t start_ticks = 0;  // counted from the start of the host
  std::string boot_id;
  int64_t pid_namespace = 0;
};

// Returns this process's identity; absent if /proc does not tell.
std::optional<ProcessIdentity> OwnIdentity();

// Returns when process `pid` started, in clock ticks; absent if there is none
// or that cannot be read.
std::optional<int64_t> StartTicks(int64_t pid);

// Returns whether the process has certainly ended: no process has this pid, or
// another process has it. A stopped process has not ended, and neither has a
// process of which only the first thread has ended. A process that only waits
// to be collected by its parent has ended. If nothing can be read, the answer
// is unknown.
bool HasEnded(const ProcessIdentity& identity);

// Returns whether `pid` names a thread that is not the first of its process.
// Needs no descriptor.
bool IsLaterThread(int64_t pid);

// Converts an identity to one word, and back. The result is absent for any
// other word.
std::string ToString(const ProcessIdentity& identity);
std::optional<ProcessIdentity> ParseIdentity(absl::string_view text);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_
