#include "services/host/timed_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/host/clock.h"

namespace plimsoll::services {

TimedWriter::TimedWriter(int fd) : fd_(fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return;
  is_socket_ = S_ISSOCK(status.st_mode);
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return;
  // Other processes may share the open file, and its flags with it. So the file
  // is opened once more, and only this one's writes do not block.
  const int own = open(absl::StrCat("/proc/self/fd/", fd).c_str(),
                       O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own < 0) return;
  fd_ = own;
  is_own_ = true;
}

TimedWriter::~TimedWriter() {
  if (is_own_) close(fd_);
}

bool TimedWriter::Write(absl::string_view line, absl::Duration timeout) {
  return WriteAll(absl::StrCat(is_in_line_ ? "\n" : "", line, "\n"), timeout);
}

bool TimedWriter::WriteAll(absl::string_view bytes, absl::Duration timeout) {
  const absl::Time end = BootTime() + timeout;
  while (!bytes.empty()) {
    const ssize_t n = is_socket_
                          ? send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT)
                          : write(fd_, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      is_in_line_ = !bytes.empty();
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    const int64_t left_ms = absl::ToInt64Milliseconds(end - BootTime());
    if (left_ms <= 0) return false;
    pollfd ready = {fd_, POLLOUT, 0};
    poll(&ready, 1, static_cast<int>(std::min(left_ms, int64_t{60'000})));
  }
  return true;
}

}  // namespace plimsoll::services
