// An identity names a process so that another process on the same host can tell
// when it has ended.
#ifndef PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_
#define PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// A pid alone may be used again. Together with the start time of its process,
// the boot of its host and its namespace it never is.
struct ProcessIdentity {
  static constexpr size_t kMaxBootIdBytes = 64;

  int64_t pid = 0;
  int64_t start_ticks = 0;  // counted from the start of the host
  std::string boot_id;
  int64_t pid_namespace = 0;
};

// Returns this process's identity; absent where /proc does not tell.
std::optional<ProcessIdentity> OwnIdentity();

// Returns when process `pid` started, in clock ticks; absent if there is none
// or that cannot be read.
std::optional<int64_t> StartTicks(int64_t pid);

// Returns whether the process has ended for certain: there is none of this pid,
// or another one has it. A process that is stopped has not ended, nor one whose
// first thread alone has. A process that only waits to be collected by its
// parent has ended. If nothing can be read, the answer is unknown.
bool HasEnded(const ProcessIdentity& identity);

// Returns whether `pid` names a thread that is not the first of its process. It
// needs no descriptor.
bool IsLaterThread(int64_t pid);

// An identity is one word, and back; it is absent for any other word.
std::string ToString(const ProcessIdentity& identity);
std::optional<ProcessIdentity> ParseIdentity(absl::string_view text);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_
