#include "services/host/log.h"

#include <spdlog/async.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/host/background.h"
#include "services/host/clock.h"
#include "services/host/library_log.h"
#include "services/host/log_repeats.h"
#include "services/host/request_scope.h"
#include "services/host/timed_writer.h"

namespace plimsoll::services {
namespace {

// The log of the process: what LogThread, its sink and Log share.
class ProcessLog {
 public:
  void Add(LogLevel level, absl::string_view message,
           std::vector<LogField> fields) ABSL_LOCKS_EXCLUDED(mu_);
  void CountDropped() ABSL_LOCKS_EXCLUDED(mu_);
  // A thread writes lines to `fd` from now on.
  // Errors: those of LogThread::Start.
  absl::Status Begin(const LogSettings& settings, int fd)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Lines are written at once from now on. Waits for the thread, which takes
  // all lines that wait before it ends.
  void End() ABSL_LOCKS_EXCLUDED(mu_);
  void SetLeast(LogLevel least) ABSL_LOCKS_EXCLUDED(mu_);
  // Lines that the thread got so far, and those of them that do not wait.
  int64_t n_taken() ABSL_LOCKS_EXCLUDED(mu_);
  int64_t n_done() ABSL_LOCKS_EXCLUDED(mu_);
  int64_t n_dropped() ABSL_LOCKS_EXCLUDED(mu_);

  // How the thread writes its next line.
  struct Turn {
    absl::Duration patience;  // how long its reader may take
    bool has_ended = false;   // the patience is all that is left
    std::string before;       // a line that goes before it, or nothing
  };
  Turn NextTurn() ABSL_LOCKS_EXCLUDED(mu_);
  // The thread is done with a line of so many bytes.
  void Finish(size_t n_bytes, bool is_written) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // How a line is written that may be.
  struct Admission {
    LogFormat format;
    int64_t n_hidden;  // equal lines before it that were not shown
  };
  std::optional<Admission> Admit(LogLevel level, absl::string_view message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Push(LogLevel level, std::string line) ABSL_LOCKS_EXCLUDED(mu_);
  bool HasRoom(size_t n_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return n_taken_ - n_done_ < LogThread::kMaxLines &&
           n_bytes_ + n_bytes <= LogThread::kMaxBytes;
  }

  absl::Mutex mu_;
  LogSettings settings_ ABSL_GUARDED_BY(mu_);
  LogRepeats repeats_ ABSL_GUARDED_BY(mu_);
  // Both are there while a thread is. The lock is held while a line is given to
  // them, so that End has the last reference to the pool and no caller of Log.
  std::shared_ptr<spdlog::details::thread_pool> pool_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<spdlog::async_logger> logger_ ABSL_GUARDED_BY(mu_);
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time end_ ABSL_GUARDED_BY(mu_);  // nothing waits longer, if has_ended_
  int64_t n_taken_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_done_ ABSL_GUARDED_BY(mu_) = 0;
  size_t n_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // bytes of lines that wait
  int64_t n_dropped_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_told_ ABSL_GUARDED_BY(mu_) = 0;     // dropped lines that were told
  int64_t n_telling_ ABSL_GUARDED_BY(mu_) = 0;  // n_told_ after this turn
};

// It is never destroyed, as threads may log until the process ends.
ProcessLog& TheLog() {
  static auto* const log = new ProcessLog;
  return *log;
}

// Where spdlog's thread brings the lines. Only that thread calls it.
class LineSink final
    : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // Lines come as they are to be written, so there is no formatter.
  explicit LineSink(int fd) : base_sink(nullptr), writer_(fd) {}

 private:
  // It throws nothing, as spdlog would hide what became of the line.
  void sink_it_(const spdlog::details::log_msg& message) override {
    const absl::string_view line(message.payload.data(),
                                 message.payload.size());
    bool is_written = false;
    try {
      is_written = Write(line);
    } catch (const std::exception&) {  // no memory: the line is dropped
    }
    TheLog().Finish(line.size(), is_written);
  }
  void flush_() override {}

  // At its end spdlog's thread brings all lines that wait. A reader that did
  // not take one of them in time gets no more.
  bool Write(absl::string_view line) {
    if (gave_up_) return false;
    const ProcessLog::Turn turn = TheLog().NextTurn();
    const bool is_written =
        turn.before.empty()
            ? writer_.Write(line, turn.patience)
            : writer_.Write(absl::StrCat(turn.before, "\n", line),
                            turn.patience);
    gave_up_ = turn.has_ended && !is_written;
    return is_written;
  }

  TimedWriter writer_;
  bool gave_up_ = false;
};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// A line says which request it is about, if its thread works for one.
void AddRequest(std::vector<LogField>& fields) {
  constexpr absl::string_view kName = "request_id";
  if (RequestScope::Id().empty()) return;
  const auto names_it = [&](const LogField& field) {
    return field.name == kName;
  };
  if (absl::c_any_of(fields, names_it)) return;
  fields.push_back({kName, RequestScope::Id()});
}

void ProcessLog::Add(LogLevel level, absl::string_view message,
                     std::vector<LogField> fields) {
  const auto admission = Admit(level, message);
  if (!admission.has_value()) return;
  AddRequest(fields);
  if (admission->n_hidden > 0) {
    fields.push_back({"hidden", admission->n_hidden});
  }
  Push(level,
       LogLine(admission->format, {absl::Now(), level, message, fields}));
}

// True if a call of spdlog's logger by this thread found no memory.
// Version 1.10 of spdlog throws then. Version 1.15 only tells the logger's
// handler of errors.
thread_local bool has_lost_a_line = false;

void ProcessLog::CountDropped() {
  absl::MutexLock lock(&mu_);
  ++n_dropped_;
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

// spdlog bounds how many lines wait, but not their bytes, and it keeps no count
// of the bytes that it overruns. So a line for which there is no room is not
// given to it, and its queue, which has room for kMaxLines, overruns none.
void ProcessLog::Push(LogLevel level, std::string line) {
  absl::MutexLock lock(&mu_);
  if (logger_ == nullptr) {
    line.push_back('\n');
    std::fwrite(line.data(), 1, line.size(), stderr);
  } else if (!HasRoom(line.size())) {
    ++n_dropped_;
  } else {
    has_lost_a_line = false;
    logger_->log(SpdlogLevel(level),
                 spdlog::string_view_t(line.data(), line.size()));
    if (has_lost_a_line) {
      ++n_dropped_;
      return;
    }
    ++n_taken_;
    n_bytes_ += line.size();
  }
}

absl::Status ProcessLog::Begin(const LogSettings& settings, int fd) {
  return NeedsThreads([&]() -> absl::Status {
    auto pool = std::make_shared<spdlog::details::thread_pool>(
        size_t{LogThread::kMaxLines}, 1);
    auto logger = std::make_shared<spdlog::async_logger>(
        "", std::make_shared<LineSink>(fd), pool,
        spdlog::async_overflow_policy::overrun_oldest);
    logger->set_level(spdlog::level::trace);  // Admit chooses the lines
    // spdlog's own handler writes to standard error.
    logger->set_error_handler(
        [](const std::string&) { has_lost_a_line = true; });
    absl::MutexLock lock(&mu_);
    settings_ = settings;
    repeats_ = {};
    has_ended_ = false;
    pool_ = std::move(pool);
    logger_ = std::move(logger);
    return absl::OkStatus();
  });
}

void ProcessLog::End() {
  std::shared_ptr<spdlog::details::thread_pool> pool;
  {
    absl::MutexLock lock(&mu_);
    logger_ = nullptr;
    pool = std::move(pool_);
    has_ended_ = true;
    end_ = BootTime() + LogThread::kPatience;
  }
  pool = nullptr;
}

void ProcessLog::SetLeast(LogLevel least) {
  absl::MutexLock lock(&mu_);
  settings_.least = least;
}

ProcessLog::Turn ProcessLog::NextTurn() {
  absl::MutexLock lock(&mu_);
  Turn turn;
  turn.patience = LogThread::kPatience;
  turn.has_ended = has_ended_;
  if (has_ended_) turn.patience = std::min(turn.patience, end_ - BootTime());
  n_telling_ = n_dropped_;
  if (n_telling_ != n_told_) {
    turn.before =
        LogLine(settings_.format,
                {absl::Now(),
                 LogLevel::kWarning,
                 "lines of this log were dropped: nobody read them in time",
                 {{"lines", n_telling_ - n_told_}}});
  }
  return turn;
}

void ProcessLog::Finish(size_t n_bytes, bool is_written) {
  absl::MutexLock lock(&mu_);
  ++n_done_;
  n_bytes_ -= n_bytes;
  if (is_written) {
    n_told_ = n_telling_;
  } else {
    ++n_dropped_;
  }
}

int64_t ProcessLog::n_taken() {
  absl::MutexLock lock(&mu_);
  return n_taken_;
}

int64_t ProcessLog::n_done() {
  absl::MutexLock lock(&mu_);
  return n_done_;
}

int64_t ProcessLog::n_dropped() {
  absl::MutexLock lock(&mu_);
  return n_dropped_;
}

}  // namespace

void Log(LogLevel level, absl::string_view message,
         const std::vector<LogField>& fields) {
  try {
    TheLog().Add(level, message, fields);
  } catch (const std::exception&) {
    TheLog().CountDropped();
  }
}

absl::StatusOr<std::unique_ptr<LogThread>> LogThread::Start(
    const LogSettings& settings, int fd) {
  std::signal(SIGPIPE, SIG_IGN);
  auto log = absl::WrapUnique(new LogThread);
  TakeLibraryLogs();
  RETURN_IF_ERROR(TheLog().Begin(settings, fd));
  return log;
}

LogThread::~LogThread() { TheLog().End(); }

void SetLogLevel(LogLevel least) { TheLog().SetLeast(least); }

// spdlog's flush only asks for one and does not wait. A sleep is not longer if
// the system's clock is set back, as a wait would be.
void FlushLog() {
  constexpr absl::Duration kLook = absl::Milliseconds(1);
  const absl::Time end = BootTime() + LogThread::kPatience;
  const int64_t n_all = TheLog().n_taken();
  while (TheLog().n_done() < n_all && BootTime() < end) absl::SleepFor(kLook);
}

int64_t DroppedLogLines() { return TheLog().n_dropped(); }

}  // namespace plimsoll::services
