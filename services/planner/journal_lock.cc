#include "services/planner/journal_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // the kernel's limit
// The file may be replaced this often between its opening and its locking.
constexpr int kMaxTries = 16;

absl::Status NoFile(const std::string& path, const std::string& why) {
  return absl::UnavailableError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::StatusOr<std::string> ResolvedPath(const std::string& path) {
  std::error_code error;
  fs::path file(path);
  for (int i = 0; i < kMaxLinks; ++i) {
    const fs::path named = file.parent_path();
    const fs::path folder = fs::canonical(named.empty() ? "." : named, error);
    if (error) return NoFile(named.string(), error.message());
    file = folder / file.filename();
    // A link to a file that does not exist yet counts as a link too.
    if (!fs::is_symlink(fs::symlink_status(file, error))) return file.string();
    const fs::path target = fs::read_symlink(file, error);
    if (error) return NoFile(file.string(), error.message());
    file = folder / target;
  }
  return NoFile(path, "too many symbolic links");
}

absl::Status JournalLock::Take(const std::string& path) {
  for (int i = 0; i < kMaxTries; ++i) {
    Release();
    fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    was_found_ = fd_ >= 0;
    if (fd_ < 0 && errno == ENOENT) {
      fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd_ < 0) return NoFile(path, std::strerror(errno));
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int why = errno;
      Release();
      if (why != EWOULDBLOCK) return NoFile(path, std::strerror(why));
      return absl::AbortedError(
          "another process uses this journal; two planners must not share one "
          "(one with --standby waits for it)");
    }
    struct stat file {};
    if (fstat(fd_, &file) == 0 && file.st_nlink > 1) {
      Release();
      return absl::FailedPreconditionError(absl::StrCat(
          "the journal ", path, " has ", file.st_nlink,
          " names (hard links), and its log lies beside only one of them; "
          "remove the others"));
    }
    if (Verify(path).ok()) return absl::OkStatus();
  }
  Release();
  return NoFile(path, "the file is replaced again and again");
}

absl::Status JournalLock::Verify(const std::string& path) const {
  struct stat held {};
  struct stat named {};
  if (fd_ < 0 || fstat(fd_, &held) != 0) return NoFile(path, "is not locked");
  if (lstat(path.c_str(), &named) != 0) {
    return NoFile(path, std::strerror(errno));
  }
  if (held.st_dev == named.st_dev && held.st_ino == named.st_ino) {
    return absl::OkStatus();
  }
  return NoFile(path, "another file lies there now");
}

std::string JournalLock::FileId() const {
  struct stat held {};
  if (fd_ < 0 || fstat(fd_, &held) != 0) return "";
  return absl::StrCat(held.st_ino);
}

void JournalLock::Release() {
  if (fd_ < 0) return;
  flock(fd_, LOCK_UN);  // a child that was forked has the lock as well
  close(fd_);
  fd_ = -1;
}

}  // namespace plimsoll::services
