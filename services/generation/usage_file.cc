#include "services/generation/usage_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "services/generation/quota_book.h"
#include "services/host/clock.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

std::string UsageFileError(const std::string& path, int error) {
  return absl::StrCat(path, ": ", std::strerror(error));
}

// Returns true if the open file of `n_bytes` ends within a line.
bool EndsInLine(int fd, off_t n_bytes) {
  char last = '\n';
  return n_bytes > 0 && pread(fd, &last, 1, n_bytes - 1) == 1 && last != '\n';
}

}  // namespace

bool LineFile::IsAtPath() const {
  struct stat open_file = {};
  struct stat at_path = {};
  return fd_ >= 0 && fstat(fd_, &open_file) == 0 &&
         stat(path_.c_str(), &at_path) == 0 &&
         open_file.st_dev == at_path.st_dev &&
         open_file.st_ino == at_path.st_ino;
}

void LineFile::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status LineFile::Open() {
  if (IsAtPath()) return absl::OkStatus();
  Close();
  if (PLIMSOLL_FAULT("receipt.open")) {
    return absl::InvalidArgumentError(UsageFileError(path_, EMFILE));
  }
  fd_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
             0640);
  if (fd_ < 0) {
    return absl::InvalidArgumentError(UsageFileError(path_, errno));
  }
  struct stat info = {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    Close();
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": is no regular file"));
  }
  is_in_line_ = EndsInLine(fd_, info.st_size);
  return absl::OkStatus();
}

absl::Status LineFile::Append(absl::string_view line) {
  if (PLIMSOLL_FAULT("receipt.write")) {
    return absl::UnavailableError(UsageFileError(path_, ENOSPC));
  }
  const std::string text = absl::StrCat(is_in_line_ ? "\n" : "", line, "\n");
  size_t n_written = 0;
  while (n_written < text.size()) {
    const ssize_t n =
        write(fd_, text.data() + n_written, text.size() - n_written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    n_written += static_cast<size_t>(n);
  }
  if (n_written == text.size()) {
    is_in_line_ = false;
    return absl::OkStatus();
  }
  const int error = errno;
  if (n_written > 0) is_in_line_ = text[n_written - 1] != '\n';
  // Only the newline is missing: the next line brings it.
  if (n_written + 1 == text.size()) return absl::OkStatus();
  return absl::UnavailableError(UsageFileError(path_, error));
}

absl::Status LineFile::Sync() {
  if (PLIMSOLL_FAULT("receipt.sync")) {
    return absl::UnavailableError(UsageFileError(path_, EIO));
  }
  if (fdatasync(fd_) == 0) return absl::OkStatus();
  return absl::UnavailableError(UsageFileError(path_, errno));
}

absl::StatusOr<std::unique_ptr<UsageFile>> UsageFile::Open(
    const std::string& path) {
  auto file = absl::WrapUnique(new UsageFile(path));
  RETURN_IF_ERROR(file->file_.Open());
  ASSIGN_OR_RETURN(file->thread_,
                   Background::Start([file = file.get()] { file->Loop(); }));
  return file;
}

UsageFile::~UsageFile() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void UsageFile::Add(UsageReceipt receipt) {
  SteadyMutexLock lock(&mu_);
  if (n_waiting_ >= kMaxWaiting) {
    ++n_lost_;
    return;
  }
  waiting_.push_back(std::move(receipt));
  ++n_waiting_;
}

void UsageFile::AddRefused(const std::string& tenant) {
  SteadyMutexLock lock(&mu_);
  const bool has_room =
      refused_.size() < kMaxRefusedTenants || refused_.count(tenant) > 0;
  ++refused_[has_room ? tenant : QuotaBook::kOtherTenants];
}

int64_t UsageFile::n_lost() {
  SteadyMutexLock lock(&mu_);
  return n_lost_;
}

void UsageFile::AppendSums(absl::Time now) {
  const absl::Time time = absl::Now();
  if (is_stopping_ || now >= refusals_at_) {
    for (const auto& [tenant, n_refused] : refused_) {
      UsageReceipt& receipt = writing_.emplace_back();
      receipt.time = time;
      receipt.tenant = tenant;
      receipt.refused = n_refused;
      ++n_waiting_;
    }
    if (!refused_.empty()) refusals_at_ = now + kRefusalsEvery;
    refused_.clear();
  }
  if (n_lost_ == n_lost_said_) return;
  UsageReceipt& receipt = writing_.emplace_back();
  receipt.time = time;
  receipt.lost = n_lost_ - n_lost_said_;
  n_lost_said_ = n_lost_;
  ++n_waiting_;
}

bool UsageFile::Await(bool has_failed) {
  SteadyMutexLock lock(&mu_);
  if (has_failed) {
    mu_.AwaitFor(absl::Condition(&is_stopping_), kRetry);
  } else {
    const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return is_stopping_ || !waiting_.empty();
    };
    mu_.AwaitFor(absl::Condition(&has_work), kRefusalsEvery);
  }
  writing_.insert(writing_.end(), std::make_move_iterator(waiting_.begin()),
                  std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  // While nothing can be written, refusals stay sums, which take no room.
  if (!has_failed || is_stopping_) AppendSums(BootTime());
  return is_stopping_;
}

absl::Status UsageFile::Write() {
  if (writing_.empty() && !owes_sync_) return absl::OkStatus();
  RETURN_IF_ERROR(file_.Open());
  while (!writing_.empty()) {
    RETURN_IF_ERROR(file_.Append(FormatReceipt(writing_.front())));
    owes_sync_ = true;
    writing_.pop_front();
    SteadyMutexLock lock(&mu_);
    --n_waiting_;
  }
  RETURN_IF_ERROR(file_.Sync());
  owes_sync_ = false;
  return absl::OkStatus();
}

void UsageFile::Loop() {
  bool has_failed = false;
  bool is_last = false;
  while (!is_last) {
    is_last = Await(has_failed);
    const absl::Status status = Write();
    if (!status.ok() && !has_failed) {
      Log(LogLevel::kError,
          "receipts cannot be written now; they wait, and are tried again",
          {{"error", std::string(status.message())}});
    }
    if (status.ok() && has_failed) {
      Log(LogLevel::kInfo, "receipts are written again", {{"lost", n_lost()}});
    }
    has_failed = !status.ok();
  }
  if (!writing_.empty()) {
    Log(LogLevel::kError, "receipts were lost at the end",
        {{"receipts", writing_.size()}});
  } else if (owes_sync_) {
    Log(LogLevel::kError,
        "the disk did not confirm the last receipts; they may be lost");
  }
}

}  // namespace plimsoll::services
