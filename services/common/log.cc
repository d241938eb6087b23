#include "services/common/log.h"

#include <cstdio>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace plimsoll::services {

void Log(absl::string_view message) {
  const std::string line =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                    absl::UTCTimeZone()),
                   " ", absl::Utf8SafeCEscape(message), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace plimsoll::services
