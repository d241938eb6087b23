#include "services/cli/chat/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/private_file.h"
#include "services/host/state_path.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

// What is read of a file that this program did not write.
constexpr int64_t kMaxHistoryBytes = static_cast<int64_t>(
    2 * HistoryFile::kMaxLines * (HistoryFile::kMaxLineBytes + 1));

bool IsKept(absl::string_view line) {
  return !line.empty() && line.size() <= HistoryFile::kMaxLineBytes &&
         line.find('\n') == absl::string_view::npos &&
         line.find('\0') == absl::string_view::npos;
}

absl::Status HistoryError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

// Makes the folder of `path`, for its owner alone if it is new.
absl::Status MakeFolder(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (fs::is_directory(folder, error)) return absl::OkStatus();
  fs::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return HistoryError(folder.string());
  }
  return absl::OkStatus();
}

}  // namespace

std::string HistoryPath() { return services::StatePath("chat_history"); }

absl::StatusOr<std::vector<std::string>> HistoryFile::Read() {
  std::error_code error;
  if (!fs::exists(path_, error)) return std::vector<std::string>();
  std::ifstream file(path_, std::ios::binary);
  if (!file.is_open()) return HistoryError(path_);
  std::vector<std::string> lines;
  size_t n_lines = 0;
  int64_t n_bytes = 0;
  while (true) {
    const auto line = ReadLine(file, kMaxHistoryBytes);
    if (!line.ok()) return line.status();
    if (!line->has_value()) break;
    ++n_lines;
    n_bytes += static_cast<int64_t>((*line)->size()) + 1;
    if (n_bytes > kMaxHistoryBytes) break;
    if (IsKept(**line)) lines.push_back(**line);
  }
  if (lines.size() > kMaxLines) {
    lines.erase(lines.begin(),
                lines.end() - static_cast<std::ptrdiff_t>(kMaxLines));
  }
  if (n_lines > kMaxLines || n_bytes > kMaxHistoryBytes) {
    RETURN_IF_ERROR(WritePrivateFile(
        path_, absl::StrCat(absl::StrJoin(lines, "\n"), "\n")));
  }
  if (!lines.empty()) last_ = lines.back();
  return lines;
}

absl::Status HistoryFile::Append(absl::string_view line) {
  if (!IsKept(line) || line == last_) return absl::OkStatus();
  RETURN_IF_ERROR(MakeFolder(path_));
  const int fd =
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return HistoryError(path_);
  // One write, so that lines of two chats do not mix.
  const std::string whole = absl::StrCat(line, "\n");
  const ssize_t n = fchmod(fd, 0600) == 0
                        ? write(fd, whole.data(), whole.size())
                        : ssize_t{-1};
  absl::Status status = n == static_cast<ssize_t>(whole.size())
                            ? absl::OkStatus()
                            : HistoryError(path_);
  close(fd);
  if (status.ok()) last_ = std::string(line);
  return status;
}

}  // namespace plimsoll::cli
