#include "services/host/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace plimsoll::services {

FileWatch::FileWatch(std::string path, absl::Time now)
    : path_(std::move(path)), stamp_(StampNow()), looked_at_(now) {}

std::optional<FileWatch::Stamp> FileWatch::StampNow() const {
  struct stat now = {};
  if (stat(path_.c_str(), &now) != 0) return std::nullopt;
  return Stamp{now.st_dev, now.st_ino, now.st_size,
               absl::TimeFromTimespec(now.st_mtim)};
}

bool FileWatch::HasChanged(absl::Time now) {
  // A clock that was set back does not stop the looking.
  if (now >= looked_at_ && now < looked_at_ + kPollInterval) return false;
  looked_at_ = now;
  const std::optional<Stamp> stamp = StampNow();
  if (stamp == stamp_) return false;
  stamp_ = stamp;
  return true;
}

}  // namespace plimsoll::services
