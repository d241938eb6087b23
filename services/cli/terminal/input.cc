// Reads text from standard input or a file, within a limit.
#include "services/cli/terminal/input.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace plimsoll::cli {

absl::StatusOr<std::string> ReadAll(std::istream& stream, int64_t max_bytes) {
  std::string text;
  std::array<char, 16'384> buffer;
  while (stream.read(buffer.data(), buffer.size()), stream.gcount() > 0) {
    text.append(buffer.data(), static_cast<size_t>(stream.gcount()));
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the text has more than ", max_bytes,
                       " bytes, the most that is read at once"));
    }
  }
  if (stream.bad()) return absl::DataLossError("the text could not be read");
  return text;
}

absl::StatusOr<std::string> ReadText(const std::string& path, std::istream& in,
                                     int64_t max_bytes) {
  if (path == "-") return ReadAll(in, max_bytes);
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return ReadAll(file, max_bytes);
}

absl::StatusOr<std::optional<std::string>> ReadLine(std::istream& stream,
                                                    int64_t max_bytes) {
  std::string line;
  char c = 0;
  bool any = false;
  while (stream.get(c)) {
    any = true;
    if (c == '\n') return line;
    if (static_cast<int64_t>(line.size()) == max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a line has more than ", max_bytes, " bytes"));
    }
    line.push_back(c);
  }
  if (!any) return std::nullopt;
  return line;
}

}  // namespace plimsoll::cli
