// The lines that a user typed in earlier chats.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_HISTORY_FILE_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_HISTORY_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// $XDG_STATE_HOME/plimsoll/chat_history, or the same path below ~/.local/state;
// empty if the environment names neither.
std::string HistoryPath();

// A file of lines, the oldest first, that only its owner may read. Chats that
// run at the same time may share it. Not thread-safe.
class HistoryFile {
 public:
  // The file keeps this many lines.
  static constexpr size_t kMaxLines = 1'000;
  static constexpr size_t kMaxLineBytes = 4'096;

  explicit HistoryFile(std::string path) : path_(std::move(path)) {}

  // Returns the newest lines, and removes older ones from the file. Returns no
  // lines if there is no file.
  // Errors: kUnavailable with the path and the system's reason.
  absl::StatusOr<std::vector<std::string>> Read();
  // Appends a line, unless it is empty, too long, or the same as the last one.
  // Creates the file and its folder if they are missing.
  // Errors: those of Read.
  absl::Status Append(absl::string_view line);

 private:
  const std::string path_;
  std::string last_;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_HISTORY_FILE_H_
