#include "services/fetch/partial_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "services/fetch/fields.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {
namespace {

constexpr absl::Duration kLockPoll = absl::Milliseconds(50);
constexpr size_t kMaxOriginBytes = 32 << 10;  // a URL may have 8 KiB

absl::Status FileError(const std::string& path, int error) {
  const std::string message =
      absl::StrCat("'", path, "': ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::DataLossError(message);
}

// True if `path` still names the file that `fd` has open.
bool IsSameFile(int fd, const std::string& path) {
  struct stat mine {};
  struct stat theirs {};
  return fstat(fd, &mine) == 0 && lstat(path.c_str(), &theirs) == 0 &&
         mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

absl::Status Lock(int fd, const std::string& path,
                  const std::function<absl::Status()>& wait) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError(path, errno);
    RETURN_IF_ERROR(wait());
    absl::SleepFor(kLockPoll);
  }
  return absl::OkStatus();
}

std::string OriginPath(const std::string& path) {
  return absl::StrCat(path, ".json");
}

}  // namespace

PartialFile::PartialFile(std::string path, std::string target, int fd,
                         int64_t size)
    : path_(std::move(path)),
      target_(std::move(target)),
      fd_(fd),
      size_(size) {}

PartialFile::~PartialFile() {
  if (!is_done_ && size_ == 0) Discard();
  // What was reserved behind the last byte is given back.
  if (!is_done_ && ftruncate(fd_, size_) != 0) size_ = 0;
  close(fd_);
}

absl::StatusOr<std::unique_ptr<PartialFile>> PartialFile::Open(
    const std::string& folder, const std::string& name,
    const std::function<absl::Status()>& wait) {
  const std::string target = absl::StrCat(folder, "/", name);
  const std::string path = absl::StrCat(folder, "/.", name, ".part");
  while (true) {
    const int fd =
        open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "'", path, "' cannot be opened: ", std::strerror(errno)));
    }
    absl::Cleanup closer = [fd] { close(fd); };
    struct stat facts {};
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", path, "' is no plain file"));
    }
    RETURN_IF_ERROR(Lock(fd, path, wait));
    if (!IsSameFile(fd, path)) continue;  // another process has finished it
    if (fstat(fd, &facts) != 0) return FileError(path, errno);
    std::move(closer).Cancel();
    std::unique_ptr<PartialFile> partial(
        new PartialFile(path, target, fd, facts.st_size));
    partial->ReadOrigin();
    return partial;
  }
}

void PartialFile::ReadOrigin() {
  std::ifstream file(OriginPath(path_), std::ios::binary);
  std::string text(kMaxOriginBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const auto member = [&json](const char* name) {
    return json.contains(name) && json[name].is_string()
               ? json[name].get<std::string>()
               : std::string();
  };
  PartialOrigin origin;
  origin.url = member("url");
  // It ends up in a request's head.
  origin.etag = StrongETag(member("etag"));
  origin.sha256 = member("sha256");
  if (!IsSha256(origin.sha256)) origin.sha256.clear();
  if (json.contains("bytes") && json["bytes"].is_number_integer()) {
    origin.bytes = std::max<int64_t>(json["bytes"].get<int64_t>(), -1);
  }
  origin_ = std::move(origin);
}

absl::Status PartialFile::SetOrigin(PartialOrigin origin) {
  if (origin == origin_) return absl::OkStatus();
  origin_ = std::move(origin);
  nlohmann::json json;
  json["url"] = origin_.url;
  json["etag"] = origin_.etag;
  json["sha256"] = origin_.sha256;
  json["bytes"] = origin_.bytes;
  const std::string path = OriginPath(path_);
  unlink(path.c_str());  // not what a symbolic link leads to
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
       << "\n"
       << std::flush;
  if (!file.good()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path, "' cannot be written"));
  }
  return absl::OkStatus();
}

absl::Status PartialFile::Reserve(int64_t bytes) {
  // File systems that cannot reserve tell at a write that the disk is full.
  if (bytes > size_ && fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no room for the ", bytes, " bytes of '", target_,
                     "': ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status PartialFile::Append(absl::string_view bytes) {
  if (PLIMSOLL_FAULT("fetch.write")) return FileError(target_, ENOSPC);
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), size_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(target_, errno);
    if (n_hashed_ == size_) {
      hash_.Update(bytes.substr(0, static_cast<size_t>(n)));
      n_hashed_ += n;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
    size_ += n;
  }
  return absl::OkStatus();
}

absl::Status PartialFile::Restart() {
  if (ftruncate(fd_, 0) != 0) return FileError(path_, errno);
  size_ = 0;
  n_hashed_ = 0;
  hash_.Reset();
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartialFile::Digest(
    const std::function<absl::Status()>& check) {
  const int64_t from = n_hashed_;
  n_hashed_ = -1;  // if it fails, the hash is no use
  if (from < 0) return absl::DataLossError("the digest is lost");
  RETURN_IF_ERROR(hash_.UpdateFrom({fd_, path_, from, size_}, check));
  n_hashed_ = size_;
  return hash_.Hex();
}

void PartialFile::Discard() {
  is_done_ = true;
  unlink(OriginPath(path_).c_str());
  if (IsSameFile(fd_, path_)) unlink(path_.c_str());
}

absl::Status PartialFile::Commit(bool overwrites) {
  if (ftruncate(fd_, size_) != 0 || fsync(fd_) != 0) {
    return FileError(target_, errno);
  }
  struct stat facts {};
  if (!overwrites && lstat(target_.c_str(), &facts) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", target_, "' exists already"));
  }
  if (std::rename(path_.c_str(), target_.c_str()) != 0) {
    return FileError(target_, errno);
  }
  is_done_ = true;
  unlink(OriginPath(path_).c_str());
  return absl::OkStatus();
}

}  // namespace plimsoll::fetch
