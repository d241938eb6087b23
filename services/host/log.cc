#include "services/host/log.h"

#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace plimsoll::services {
namespace {

// Control characters as \xNN, so that nobody can forge a line.
std::string Printable(absl::string_view text) {
  std::string result;
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&result, "\\x",
                      absl::BytesToHexString(absl::string_view(&c, 1)));
    } else {
      result.push_back(c);
    }
  }
  return result;
}

}  // namespace

void Log(absl::string_view message) {
  const std::string line =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                    absl::UTCTimeZone()),
                   " ", Printable(message), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace plimsoll::services
