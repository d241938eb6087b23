#include "services/host/log.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/host/clock.h"
#include "services/host/library_log.h"
#include "services/host/log_repeats.h"
#include "services/host/timed_writer.h"

namespace plimsoll::services {
namespace {

// The log of the process: what LogThread and Log share.
class ProcessLog {
 public:
  void Add(LogLevel level, absl::string_view message,
           std::vector<LogField> fields) ABSL_LOCKS_EXCLUDED(mu_);
  // Lines wait for WriteLines from now on.
  void Begin(const LogSettings& settings) ABSL_LOCKS_EXCLUDED(mu_);
  // Lines are written at once from now on. Makes WriteLines end soon.
  void End() ABSL_LOCKS_EXCLUDED(mu_);
  void SetLeast(LogLevel least) ABSL_LOCKS_EXCLUDED(mu_);
  bool has_lines() ABSL_LOCKS_EXCLUDED(mu_);
  // Writes lines until End was called.
  void WriteLines(int fd) ABSL_LOCKS_EXCLUDED(mu_);
  int64_t n_dropped() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // How a line is written that may be.
  struct Admission {
    LogFormat format;
    int64_t n_hidden;  // equal lines before it that were not shown
  };
  std::optional<Admission> Admit(LogLevel level, absl::string_view message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Push(std::string line) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for the next line, which stays the first one, and sets how long its
  // reader may take. Nothing: it is time to end.
  std::optional<std::string> Next(absl::Duration& patience)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !lines_.empty() || has_ended_;
  }
  // Takes the first line away.
  void Finish(bool is_written) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  LogSettings settings_ ABSL_GUARDED_BY(mu_);
  LogRepeats repeats_ ABSL_GUARDED_BY(mu_);
  bool has_thread_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time end_ ABSL_GUARDED_BY(mu_);  // nothing waits longer, if has_ended_
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mu_);
  size_t n_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of lines_
  int64_t n_dropped_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_told_ ABSL_GUARDED_BY(mu_) = 0;     // of n_dropped_: a line said so
  int64_t n_telling_ ABSL_GUARDED_BY(mu_) = 0;  // n_told_ after the first line
};

// It is never destroyed, as threads may log until the process ends.
ProcessLog& TheLog() {
  static auto* const log = new ProcessLog;
  return *log;
}

void ProcessLog::Add(LogLevel level, absl::string_view message,
                     std::vector<LogField> fields) {
  const auto admission = Admit(level, message);
  if (!admission.has_value()) return;
  if (admission->n_hidden > 0) {
    fields.push_back({"hidden", admission->n_hidden});
  }
  Push(LogLine(admission->format, absl::Now(), level, message, fields));
}

std::optional<ProcessLog::Admission> ProcessLog::Admit(
    LogLevel level, absl::string_view message) {
  absl::MutexLock lock(&mu_);
  if (level < settings_.least) return std::nullopt;
  if (level == LogLevel::kInfo) return Admission{settings_.format, 0};
  const std::optional<int64_t> n_hidden = repeats_.Take(message, BootTime());
  if (!n_hidden.has_value()) return std::nullopt;
  return Admission{settings_.format, *n_hidden};
}

void ProcessLog::Push(std::string line) {
  absl::MutexLock lock(&mu_);
  if (!has_thread_) {
    line.push_back('\n');
    std::fwrite(line.data(), 1, line.size(), stderr);
  } else if (n_bytes_ + line.size() > LogThread::kMaxBytes) {
    ++n_dropped_;
  } else {
    n_bytes_ += line.size();
    lines_.push_back(std::move(line));
  }
}

void ProcessLog::Begin(const LogSettings& settings) {
  absl::MutexLock lock(&mu_);
  settings_ = settings;
  repeats_ = {};
  has_thread_ = true;
  has_ended_ = false;
}

void ProcessLog::End() {
  absl::MutexLock lock(&mu_);
  has_thread_ = false;
  has_ended_ = true;
  end_ = BootTime() + LogThread::kPatience;
}

void ProcessLog::SetLeast(LogLevel least) {
  absl::MutexLock lock(&mu_);
  settings_.least = least;
}

bool ProcessLog::has_lines() {
  absl::MutexLock lock(&mu_);
  return !lines_.empty();
}

std::optional<std::string> ProcessLog::Next(absl::Duration& patience) {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &ProcessLog::HasNews));
  if (lines_.empty()) return std::nullopt;
  patience = LogThread::kPatience;
  if (has_ended_) patience = std::min(patience, end_ - BootTime());
  n_telling_ = n_dropped_;
  if (n_telling_ == n_told_) return lines_.front();
  const std::string dropped =
      LogLine(settings_.format, absl::Now(), LogLevel::kWarning,
              "lines of this log were dropped: nobody read them in time",
              {{"lines", n_telling_ - n_told_}});
  return absl::StrCat(dropped, "\n", lines_.front());
}

void ProcessLog::Finish(bool is_written) {
  absl::MutexLock lock(&mu_);
  n_bytes_ -= lines_.front().size();
  lines_.pop_front();
  if (is_written) {
    n_told_ = n_telling_;
  } else {
    ++n_dropped_;
  }
}

void ProcessLog::WriteLines(int fd) {
  TimedWriter writer(fd);
  absl::Duration patience;
  while (const std::optional<std::string> line = Next(patience)) {
    Finish(writer.Write(*line, patience));
  }
}

int64_t ProcessLog::n_dropped() {
  absl::MutexLock lock(&mu_);
  return n_dropped_;
}

}  // namespace

void Log(LogLevel level, absl::string_view message,
         const std::vector<LogField>& fields) {
  TheLog().Add(level, message, fields);
}

absl::StatusOr<std::unique_ptr<LogThread>> LogThread::Start(
    const LogSettings& settings, int fd) {
  std::signal(SIGPIPE, SIG_IGN);
  auto log = absl::WrapUnique(new LogThread);
  TakeLibraryLogs();
  TheLog().Begin(settings);
  ASSIGN_OR_RETURN(log->thread_,
                   Background::Start([fd] { TheLog().WriteLines(fd); }));
  return log;
}

LogThread::~LogThread() { TheLog().End(); }

void SetLogLevel(LogLevel least) { TheLog().SetLeast(least); }

// A sleep is not longer if the system's clock is set back, as a wait would be.
void FlushLog() {
  constexpr absl::Duration kLook = absl::Milliseconds(1);
  const absl::Time end = BootTime() + LogThread::kPatience;
  while (TheLog().has_lines() && BootTime() < end) absl::SleepFor(kLook);
}

int64_t DroppedLogLines() { return TheLog().n_dropped(); }

}  // namespace plimsoll::services
