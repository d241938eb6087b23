#include "services/cli/terminal/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace plimsoll::cli {
namespace {

// Writes all of `text` to the disk. Returns false with errno set if it failed.
bool WriteWhole(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd) == 0;
}

}  // namespace

absl::Status WritePrivateFile(const std::string& path, absl::string_view text) {
  const auto failed = [&path] {
    return absl::UnavailableError(
        absl::StrCat(path, ": ", std::strerror(errno)));
  };
  // mkostemp makes it with mode 0600.
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return failed();
  const bool is_written = WriteWhole(fd, text);
  absl::Status status = is_written ? absl::OkStatus() : failed();
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = failed();
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace plimsoll::cli
