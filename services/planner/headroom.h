// How many bytes of its devices a planner's settings keep free.
#ifndef PLIMSOLL_SERVICES_PLANNER_HEADROOM_H_
#define PLIMSOLL_SERVICES_PLANNER_HEADROOM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace plimsoll::services {

struct HeadroomPolicy {
  static constexpr size_t kMaxDevices = 1'024;  // that are named

  std::map<std::string, int64_t> devices = {};  // bytes by id
  std::optional<int64_t> others = {};           // of those that are not named

  // Returns the bytes to keep free of a device. Absent: the settings say
  // nothing about it, so it is as who registers the device says.
  std::optional<int64_t> Of(const std::string& device_id) const;
};

// Reads values of --headroom: BYTES or DEVICE=BYTES. The part after the last
// '=' is the size, a plain number or one with KiB...TiB or B.
// Errors: kInvalidArgument naming the value, if it makes no sense, or if there
// are two for one device or too many.
absl::StatusOr<HeadroomPolicy> ParseHeadrooms(
    const std::vector<std::string>& texts);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_HEADROOM_H_
