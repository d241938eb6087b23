#include "services/convert/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

absl::Status WriteError(const std::string& target, int error) {
  const std::string reason =
      absl::StrCat("'", target, "' cannot be written: ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(reason);
  }
  return absl::DataLossError(reason);
}

absl::Status CheckAbsent(const std::string& target) {
  std::error_code error;
  if (!std::filesystem::exists(target, error)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("'", target, "' exists already"));
}

}  // namespace

NewFile::NewFile(std::string target, std::string hidden, bool overwrites,
                 int fd)
    : target_(std::move(target)),
      hidden_(std::move(hidden)),
      overwrites_(overwrites),
      fd_(fd) {}

NewFile::~NewFile() {
  close(fd_);
  if (!is_committed_) unlink(hidden_.c_str());
}

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Create(
    const std::string& target, int64_t bytes, bool overwrites) {
  if (!overwrites) RETURN_IF_ERROR(CheckAbsent(target));
  const std::filesystem::path path(target);
  const std::string hidden =
      (path.parent_path() /
       absl::StrCat(".", path.filename().string(), ".", getpid(), ".part"))
          .string();
  const int fd =
      open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", target, "' cannot be created: ", std::strerror(errno)));
  }
  std::unique_ptr<NewFile> file(new NewFile(target, hidden, overwrites, fd));
  // File systems that cannot reserve tell at a write that the disk is full.
  if (bytes > 0 && fallocate(fd, 0, 0, bytes) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS && errno != EINVAL) {
    return absl::Status(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat("there is no room for the ", bytes, " bytes of '", target,
                     "': ", std::strerror(errno)));
  }
  return file;
}

absl::Status NewFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WriteError(target_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    size_ += n;
  }
  return absl::OkStatus();
}

absl::Status NewFile::Commit() {
  if (ftruncate(fd_, size_) != 0 || fsync(fd_) != 0) {
    return WriteError(target_, errno);
  }
  if (!overwrites_) RETURN_IF_ERROR(CheckAbsent(target_));
  if (std::rename(hidden_.c_str(), target_.c_str()) != 0) {
    return WriteError(target_, errno);
  }
  is_committed_ = true;
  return absl::OkStatus();
}

}  // namespace plimsoll::services
