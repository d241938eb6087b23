#include "services/server/small_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::services {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          size_t max_bytes) {
  const auto failed = [&path] {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (file == nullptr) return failed();
  std::string bytes(max_bytes + 1, '\0');
  const size_t n = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (std::ferror(file.get()) != 0) return failed();
  if (n > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has more than ", max_bytes, " bytes"));
  }
  bytes.resize(n);
  return bytes;
}

}  // namespace plimsoll::services
