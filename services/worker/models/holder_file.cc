#include "services/worker/models/holder_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/host/random_id.h"

namespace plimsoll::services {
namespace {

constexpr absl::string_view kFirstLine = "plimsoll-holder 1";
constexpr absl::string_view kLastLine = "end";
constexpr size_t kSecretBytes = 32;  // RandomId() has so many

std::string ErrorText(const std::string& path, int error) {
  return absl::StrCat(path, ": ", std::strerror(error));
}

bool IsSecret(absl::string_view text) {
  return text.size() == kSecretBytes &&
         std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

// Returns what the lines of the file `file_id` say; absent if they are no such
// lines, or another file's.
std::optional<HolderHistory> Parse(absl::string_view text,
                                   absl::string_view file_id) {
  HolderHistory history;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() < 4 || lines[0] != kFirstLine) return std::nullopt;
  if (lines[1] != absl::StrCat("file ", file_id)) return std::nullopt;
  if (!absl::ConsumePrefix(&lines[2], "secret ") || !IsSecret(lines[2])) {
    return std::nullopt;
  }
  history.secret = std::string(lines[2]);
  for (size_t i = 3; i < lines.size(); ++i) {
    if (lines[i] == kLastLine) return history;
    if (!absl::ConsumePrefix(&lines[i], "process ")) return std::nullopt;
    std::optional<ProcessIdentity> process = ParseIdentity(lines[i]);
    if (!process.has_value()) return std::nullopt;
    history.former.push_back(*std::move(process));
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HolderFile>> HolderFile::Open(
    const std::string& path, const std::optional<ProcessIdentity>& own) {
  auto file = absl::WrapUnique(new HolderFile(path));
  RETURN_IF_ERROR(file->Lock());
  RETURN_IF_ERROR(file->Read(own));
  RETURN_IF_ERROR(file->Write(own));
  return file;
}

HolderFile::~HolderFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status HolderFile::Lock() {
  fd_ = open(path_.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
  if (fd_ < 0) return absl::InvalidArgumentError(ErrorText(path_, errno));
  struct stat info {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": is no regular file"));
  }
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return absl::UnavailableError(ErrorText(path_, errno));
    }
    return absl::AbortedError(absl::StrCat(
        path_,
        ": another worker uses this file (--holder-file); each worker needs "
        "one of its own"));
  }
  // Who can read the secret can give the worker's leases back.
  fchmod(fd_, 0600);
  file_id_ = absl::StrCat(info.st_dev, ":", info.st_ino);
  return absl::OkStatus();
}

absl::Status HolderFile::Read(const std::optional<ProcessIdentity>& own) {
  std::string text(kMaxBytes, '\0');
  const ssize_t n_read = pread(fd_, text.data(), text.size(), 0);
  if (n_read < 0) return absl::UnavailableError(ErrorText(path_, errno));
  text.resize(static_cast<size_t>(n_read));
  std::optional<HolderHistory> history = Parse(text, file_id_);
  if (!history.has_value()) {
    if (!text.empty()) {
      Log(LogLevel::kWarning,
          "the file of an earlier process is not one of this place, and is "
          "written anew",
          {{"file", path_}});
    }
    history_.secret = RandomId();
    return absl::OkStatus();
  }
  history_ = *std::move(history);
  const auto does_not_count = [&own](const ProcessIdentity& process) {
    return !own.has_value() || process.boot_id != own->boot_id ||
           ToString(process) == ToString(*own);
  };
  std::erase_if(history_.former, does_not_count);
  return absl::OkStatus();
}

absl::Status HolderFile::Write(const std::optional<ProcessIdentity>& own) {
  std::vector<ProcessIdentity>& former = history_.former;
  if (former.size() > kMaxFormer) {
    former.erase(former.begin(), former.end() - kMaxFormer);
  }
  std::string text = absl::StrCat(kFirstLine, "\nfile ", file_id_, "\nsecret ",
                                  history_.secret, "\n");
  for (const ProcessIdentity& process : former) {
    absl::StrAppend(&text, "process ", ToString(process), "\n");
  }
  if (own.has_value()) absl::StrAppend(&text, "process ", ToString(*own), "\n");
  absl::StrAppend(&text, kLastLine, "\n");
  // One write, and what an older text leaves behind the last line is cut off
  // afterwards: a process that is killed in between loses nothing.
  const ssize_t n_written = pwrite(fd_, text.data(), text.size(), 0);
  if (n_written != static_cast<ssize_t>(text.size()) ||
      ftruncate(fd_, n_written) != 0) {
    const int error = n_written < 0 ? errno : ENOSPC;
    return absl::UnavailableError(ErrorText(path_, error));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
