#include "worker/device/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace plimsoll::worker {
namespace {

absl::Status Failed(const std::string& path, int why) {
  // ENODEV is the error of a control group's file after the group was removed,
  // and ESRCH that of a process's file after the process ended.
  const bool is_absent =
      why == ENOENT || why == ENOTDIR || why == ENODEV || why == ESRCH;
  const std::string text = absl::StrCat(path, ": ", std::strerror(why));
  return is_absent ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<std::string> ReadKernelFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed(path, errno);
  std::string text;
  char buffer[4096];
  ssize_t n_bytes = 0;
  do {
    n_bytes = read(fd, buffer, sizeof(buffer));
    if (n_bytes > 0) text.append(buffer, static_cast<size_t>(n_bytes));
  } while ((n_bytes > 0 && text.size() <= kMaxKernelFileBytes) ||
           (n_bytes < 0 && errno == EINTR));
  const int why = n_bytes < 0 ? errno : EFBIG;
  close(fd);
  if (n_bytes != 0) return Failed(path, why);
  return text;
}

std::optional<int64_t> BytesOfKey(absl::string_view text,
                                  absl::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, key)) continue;
    if (!absl::ConsumePrefix(&rest, ":")) continue;
    int64_t kilobytes = 0;
    absl::ConsumeSuffix(&rest, "kB");
    if (absl::SimpleAtoi(rest, &kilobytes)) return kilobytes * 1024;
  }
  return std::nullopt;
}

}  // namespace plimsoll::worker
