#include "services/planner/use_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "services/host/state_path.h"

namespace plimsoll::services {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kMarkText =
    "A plimsoll-planner has granted memory here. While this file lies here,\n"
    "--first is not enough to start without waiting for workers.\n";

// Opens `path` with `flags`, writes `text`, if any, and makes the file durable.
absl::Status Sync(const std::string& path, int flags, absl::string_view text) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  bool is_good = fd >= 0;
  if (is_good && !text.empty()) {
    is_good = write(fd, text.data(), text.size()) ==
              static_cast<ssize_t>(text.size());
  }
  is_good = is_good && fsync(fd) == 0;
  const int why = errno;
  if (fd >= 0) close(fd);
  if (is_good) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(why)));
}

}  // namespace

std::string MarkPath(const std::string& journal) { return journal + ".mark"; }

std::string HostMarkPath() { return StatePath("planner.mark"); }

bool Exists(const std::string& path) {
  struct stat file {};
  return lstat(path.c_str(), &file) == 0 ||
         (errno != ENOENT && errno != ENOTDIR);
}

absl::Status WriteMark(const std::string& path, const std::string& about) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  // The existence of the file is what counts most; an incomplete last line is
  // ignored.
  RETURN_IF_ERROR(Sync(path, O_WRONLY | O_CREAT | O_TRUNC,
                       absl::StrCat(kMarkText, about, "\n")));
  return Sync(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY,
              "");
}

std::string AboutOfMark(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kMarkText)) return "";
  if (!absl::ConsumeSuffix(&rest, "\n")) return "";
  return std::string(rest);
}

}  // namespace plimsoll::services
