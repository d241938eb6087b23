// Shows how long something has lasted.
#include "services/cli/terminal/age.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace plimsoll::cli {

std::string AgeText(const google::protobuf::Duration& age) {
  const int64_t seconds = age.seconds();
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 120 * 60) return absl::StrCat(seconds / 60, " min");
  if (seconds < 48 * 3'600) return absl::StrCat(seconds / 3'600, " h");
  return absl::StrCat(seconds / 86'400, " d");
}

}  // namespace plimsoll::cli
