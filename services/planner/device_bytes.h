// Bytes of devices that a planner's settings fix.
#ifndef PLIMSOLL_SERVICES_PLANNER_DEVICE_BYTES_H_
#define PLIMSOLL_SERVICES_PLANNER_DEVICE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

struct DeviceBytes {
  static constexpr size_t kMaxDevices = 1'024;  // devices that are named

  std::map<std::string, int64_t> devices = {};  // bytes by id
  std::optional<int64_t> others = {};           // bytes of any other device

  // Returns the bytes of a device. Absent: the settings say nothing about it.
  std::optional<int64_t> Of(const std::string& device_id) const;
};

// Reads values of `flag`: BYTES or DEVICE=BYTES. The part after the last '=' is
// the size, a plain number or one with KiB...TiB or B.
// Errors: kInvalidArgument naming the flag and the value, if it makes no sense
// or is less than `least`, or if there are two for one device or too many.
absl::StatusOr<DeviceBytes> ParseDeviceBytes(
    absl::string_view flag, const std::vector<std::string>& texts,
    int64_t least = 0);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_DEVICE_BYTES_H_
