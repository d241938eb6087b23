// Shows how long something has lasted.
#include "services/cli/terminal/age.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace plimsoll::cli {

std::string AgeText(const google::protobuf::Duration& age) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 3'600;
  const int64_t seconds = age.seconds();
  if (seconds < 2 * kMinute) return absl::StrCat(seconds, " s");
  if (seconds < 120 * kMinute) return absl::StrCat(seconds / kMinute, " min");
  if (seconds < 48 * kHour) return absl::StrCat(seconds / kHour, " h");
  return absl::StrCat(seconds / 86'400, " d");
}

}  // namespace plimsoll::cli
