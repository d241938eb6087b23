// Writes receipts of requests to a file, on a thread of its own.
#ifndef PLIMSOLL_SERVICES_GENERATION_USAGE_FILE_H_
#define PLIMSOLL_SERVICES_GENERATION_USAGE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/usage_receipt.h"
#include "services/host/background.h"

namespace plimsoll::services {

// A file that only grows, one line after the other. If the file is moved away
// or removed, a new one is made at its path before the next line. Not
// thread-safe.
class LineFile {
 public:
  // Makes the file with mode 0640 if there is none. Open must come first.
  explicit LineFile(std::string path) : path_(std::move(path)) {}
  ~LineFile() { Close(); }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Opens the file that is at the path now, if it is not open already.
  // Errors: kInvalidArgument naming the path and the reason.
  absl::Status Open();
  // Appends the line and a newline. A line that was written only in part is
  // ended before the next one, so that a reader sees which line is bad.
  // Errors: kUnavailable; the line is then not in the file as a whole.
  absl::Status Append(absl::string_view line);
  // Waits until the disk has all lines. Errors: kUnavailable.
  absl::Status Sync();

  const std::string& path() const { return path_; }

 private:
  void Close();
  bool IsAtPath() const;

  const std::string path_;
  int fd_ = -1;
  bool is_in_line_ = false;  // the last line has no end yet
};

// Adding a receipt never waits for the disk. Failed writes and syncs are tried
// again every kRetry. Receipts beyond kMaxWaiting are lost, and a line tells
// their number. Thread-safe.
class UsageFile {
 public:
  static constexpr size_t kMaxWaiting = 16'384;
  static constexpr absl::Duration kRetry = absl::Seconds(1);
  // Refused requests are counted, and the counts are written once in this time.
  static constexpr absl::Duration kRefusalsEvery = absl::Minutes(1);
  // Beyond this many tenants between two such lines, refusals count for
  // kOtherTenants of QuotaBook.
  static constexpr size_t kMaxRefusedTenants = 1'024;

  // Errors: those of LineFile::Open; kResourceExhausted without a thread.
  static absl::StatusOr<std::unique_ptr<UsageFile>> Open(
      const std::string& path);
  // Writes the waiting receipts. If that fails they are lost, and the log says
  // so.
  ~UsageFile() ABSL_LOCKS_EXCLUDED(mu_);
  UsageFile(const UsageFile&) = delete;
  UsageFile& operator=(const UsageFile&) = delete;

  void Add(UsageReceipt receipt) ABSL_LOCKS_EXCLUDED(mu_);
  void AddRefused(const std::string& tenant) ABSL_LOCKS_EXCLUDED(mu_);
  // Receipts that were lost since the process began.
  int64_t n_lost() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  explicit UsageFile(const std::string& path) : file_(path) {}

  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for receipts, or for the next try if the last one failed, and makes
  // lines of them. Returns true if they are the last ones.
  bool Await(bool has_failed) ABSL_LOCKS_EXCLUDED(mu_);
  void AppendSums(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Write() ABSL_LOCKS_EXCLUDED(mu_);

  LineFile file_;                     // only the thread uses it
  std::deque<UsageReceipt> writing_;  // only the thread uses it
  bool owes_sync_ = false;            // only the thread uses it
  SteadyMutex mu_;
  std::deque<UsageReceipt> waiting_ ABSL_GUARDED_BY(mu_);
  size_t n_waiting_ ABSL_GUARDED_BY(mu_) = 0;  // with those of writing_
  std::map<std::string, int64_t> refused_ ABSL_GUARDED_BY(mu_);
  absl::Time refusals_at_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  int64_t n_lost_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_lost_said_ ABSL_GUARDED_BY(mu_) = 0;  // in the file
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_USAGE_FILE_H_
