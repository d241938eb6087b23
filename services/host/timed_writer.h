// Writes to a file that another process reads, and never waits longer than a
// given time.
#ifndef PLIMSOLL_SERVICES_HOST_TIMED_WRITER_H_
#define PLIMSOLL_SERVICES_HOST_TIMED_WRITER_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// A writer of lines to a pipe, a terminal, a socket or a file. A write fails if
// the reader reads nothing, or is gone. The process must ignore SIGPIPE. Not
// thread-safe.
class TimedWriter {
 public:
  // Writes to `fd`, which must stay open.
  explicit TimedWriter(int fd);
  ~TimedWriter();
  TimedWriter(const TimedWriter&) = delete;
  TimedWriter& operator=(const TimedWriter&) = delete;

  // Writes the line and a newline. Returns false if not all of it could be
  // written in `timeout`. A line of which only a part was written is ended
  // before the next one.
  bool Write(absl::string_view line, absl::Duration timeout);

 private:
  bool WriteAll(absl::string_view bytes, absl::Duration timeout);

  int fd_;
  bool is_own_ = false;  // fd_ was opened here
  bool is_socket_ = false;
  bool is_in_line_ = false;  // the last line has no end yet
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_TIMED_WRITER_H_
