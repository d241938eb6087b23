// Notices that a file was changed, by looking at it now and then.
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
  // Takes the file as it is at `now` for known.
  FileWatch(std::string path, absl::Time now);

  // Returns whether the file differs from what it was at the last look, and
  // remembers it as it is now. Returns false without a look if none is due
  // (PollTimer). A file that is gone has changed.
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
