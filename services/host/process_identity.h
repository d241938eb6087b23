// Which process somebody is, so that another one on the same host can tell when
// it has ended.
#ifndef PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_
#define PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// A pid alone comes again; with the start of its process and of its host, and
// in its namespace, it does not.
struct ProcessIdentity {
  static constexpr size_t kMaxBootIdBytes = 64;

  int64_t pid = 0;
  int64_t start_ticks = 0;  // since the host started
  std::string boot_id;
  int64_t pid_namespace = 0;
};

// Of this process; absent where /proc does not tell.
std::optional<ProcessIdentity> OwnIdentity();

// When process `pid` started, in clock ticks; absent if there is none.
std::optional<int64_t> StartTicks(int64_t pid);

// Whether it has ended for certain: there is no such process, or another one
// has its pid. One that is stopped has not; one that only waits to be collected
// by its parent has; and where nothing can be read, nothing is certain.
bool HasEnded(const ProcessIdentity& identity);

// One word, and back; absent for any other word.
std::string ToString(const ProcessIdentity& identity);
std::optional<ProcessIdentity> ParseIdentity(absl::string_view text);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_PROCESS_IDENTITY_H_
