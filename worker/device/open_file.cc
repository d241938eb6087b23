#include "worker/device/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/sync/fault.h"

namespace plimsoll::worker {
namespace {

int64_t ModifiedNs(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
         info.st_mtim.tv_nsec;
}

// The model was opened by its caller's name, which the message need not repeat.
absl::Status OpenError(int error) {
  const std::string reason = std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(
        absl::StrCat("the model file cannot be opened: ", reason));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the model file cannot be opened: ", reason));
}

absl::Status ReadError(int error) {
  return absl::DataLossError(
      absl::StrCat("reading the model file failed: ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpenFile>> OpenFile::Open(
    const std::string& path) {
  if (PLIMSOLL_FAULT("model.open")) return OpenError(EMFILE);
  // O_NONBLOCK: opening a FIFO must not wait for its other end.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return OpenError(errno);
  std::unique_ptr<OpenFile> file(new OpenFile(fd));
  struct stat info = {};
  if (fstat(fd, &info) != 0) return OpenError(errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        "the model file is not a regular file");
  }
  file->size_ = info.st_size;
  file->device_ = info.st_dev;
  file->inode_ = info.st_ino;
  file->modified_ns_ = ModifiedNs(info);
  return file;
}

OpenFile::~OpenFile() { close(fd_); }

absl::Status OpenFile::Read(int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    if (PLIMSOLL_FAULT("model.read")) return ReadError(EIO);
    const ssize_t n = pread(fd_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadError(errno);
    if (n == 0) {
      return absl::DataLossError(absl::StrCat("the model file ends at byte ",
                                              offset, " though it had ", size_,
                                              " bytes when it was opened"));
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

absl::Status OpenFile::CheckUnchanged() const {
  struct stat info = {};
  if (fstat(fd_, &info) != 0) return OpenError(errno);
  if (info.st_size != size_ || info.st_dev != device_ ||
      info.st_ino != inode_ || ModifiedNs(info) != modified_ns_) {
    return absl::DataLossError(
        "the model file was changed since it was opened; load it again");
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
