// Writes lines for the operator on standard error. No prompt, completion or
// token is ever written there.
#ifndef PLIMSOLL_SERVICES_HOST_LOG_H_
#define PLIMSOLL_SERVICES_HOST_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/host/log_line.h"

namespace plimsoll::services {

struct LogSettings {
  LogLevel least = LogLevel::kInfo;  // less important lines are not written
  LogFormat format = LogFormat::kText;
};

// Writes one line: at once, or soon while a LogThread exists. Equal warnings
// and errors are shown only a few times in a while (LogRepeats says how often):
// the field "hidden" of a later line counts those that were not shown. A line
// of a thread that works for a request (RequestScope) has its "request_id".
// Thread-safe. Does not throw: a line is dropped if there is no memory for it.
void Log(LogLevel level, absl::string_view message,
         const std::vector<LogField>& fields = {});

// While it exists, a thread of spdlog writes the lines, so that Log never waits
// for the reader of the log. Lines that cannot be written are dropped and
// counted, and a later line tells their number. A process has at most one
// LogThread.
class LogThread {
 public:
  // At most this many lines wait to be written. spdlog's queue holds a slot of
  // some 400 bytes for each of them from the start.
  static constexpr int kMaxLines = 2'048;
  // The most bytes of all waiting lines together.
  static constexpr size_t kMaxBytes = 1 << 20;
  // A line is dropped if the reader of the log takes nothing for this time.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Lines go to `fd`, which must stay open. From now on the process ignores
  // SIGPIPE, and libraries write into the log (TakeLibraryLogs).
  // Errors: kResourceExhausted if the system gives no thread, or no memory for
  // the queue.
  static absl::StatusOr<std::unique_ptr<LogThread>> Start(
      const LogSettings& settings, int fd);
  // Writes the waiting lines, for about kPatience at most. Later lines are
  // written at once.
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

 private:
  LogThread() = default;
};

// Less important lines than `least` are not written from now on. Thread-safe.
void SetLogLevel(LogLevel least);

// Waits until all lines so far are written or dropped, for LogThread::kPatience
// at most. For processes that are about to end without destructors.
void FlushLog();

// Lines that were dropped since the process began.
int64_t DroppedLogLines();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LOG_H_
