// Notices changes of a file by checking it now and then.
#ifndef PLIMSOLL_SERVICES_HOST_FILE_WATCH_H_
#define PLIMSOLL_SERVICES_HOST_FILE_WATCH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "services/host/poll_timer.h"

namespace plimsoll::services {

// Not thread-safe.
class FileWatch {
 public:
  // The state of the file at `now` counts as known.
  FileWatch(std::string path, absl::Time now);

  // Returns whether the file has changed since the last check, and remembers
  // its present state. Returns false without a check if none is due
  // (PollTimer). A missing file counts as changed.
  bool HasChanged(absl::Time now);

  const std::string& path() const { return path_; }

 private:
  // A file that has changed has another stamp.
  struct Stamp {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t bytes = 0;
    absl::Time changed;
    bool operator==(const Stamp&) const = default;
  };

  // Absent if there is no file.
  std::optional<Stamp> StampNow() const;

  std::string path_;
  std::optional<Stamp> stamp_;
  PollTimer timer_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_FILE_WATCH_H_
