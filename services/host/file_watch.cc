#include "services/host/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace plimsoll::services {

FileWatch::FileWatch(std::string path, absl::Time now)
    : path_(std::move(path)), stamp_(StampNow()), timer_(now) {}

std::optional<FileWatch::Stamp> FileWatch::StampNow() const {
  struct stat now = {};
  if (stat(path_.c_str(), &now) != 0) return std::nullopt;
  return Stamp{now.st_dev, now.st_ino, now.st_size,
               absl::TimeFromTimespec(now.st_mtim)};
}

bool FileWatch::HasChanged(absl::Time now) {
  if (!timer_.IsDue(now)) return false;
  const std::optional<Stamp> stamp = StampNow();
  if (stamp == stamp_) return false;
  stamp_ = stamp;
  return true;
}

}  // namespace plimsoll::services
