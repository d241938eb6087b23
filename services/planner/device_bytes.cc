#include "services/planner/device_bytes.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/lease/lease_book.h"

namespace plimsoll::services {
namespace {

// Errors: kInvalidArgument.
absl::StatusOr<int64_t> SizeOf(std::string text) {
  uint64_t bytes = 0;
  std::string complaint;
  try {
    complaint = CLI::AsSizeValue(/*kb_is_1000=*/false)(text);
  } catch (const CLI::Error& error) {
    complaint = error.what();
  }
  if (complaint.empty() && absl::SimpleAtoi(text, &bytes) &&
      bytes <= std::numeric_limits<int64_t>::max()) {
    return static_cast<int64_t>(bytes);
  }
  return absl::InvalidArgumentError(
      "write a size, such as 2GiB, or DEVICE=2GiB for one device");
}

absl::Status AddBytes(const std::string& text, int64_t least,
                      DeviceBytes& policy) {
  const size_t end = text.rfind('=');
  const bool is_named = end != std::string::npos;
  ASSIGN_OR_RETURN(const int64_t bytes,
                   SizeOf(is_named ? text.substr(end + 1) : text));
  if (bytes < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("the size must not be below ", least));
  }
  if (!is_named) {
    if (policy.others.has_value()) {
      return absl::InvalidArgumentError("there are two for all other devices");
    }
    policy.others = bytes;
    return absl::OkStatus();
  }
  const std::string device = text.substr(0, end);
  if (device.empty() || device.size() > planner::LeaseBook::kMaxIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device's id has ", device.size(), " bytes, not 1 to ",
                     planner::LeaseBook::kMaxIdBytes));
  }
  if (!policy.devices.emplace(device, bytes).second) {
    return absl::InvalidArgumentError("there are two for this device");
  }
  if (policy.devices.size() <= DeviceBytes::kMaxDevices) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("at most ", DeviceBytes::kMaxDevices,
                   " devices can be named; give the others one value"));
}

}  // namespace

std::optional<int64_t> DeviceBytes::Of(const std::string& device_id) const {
  const auto named = devices.find(device_id);
  return named == devices.end() ? others : std::optional(named->second);
}

absl::StatusOr<DeviceBytes> ParseDeviceBytes(
    absl::string_view flag, const std::vector<std::string>& texts,
    int64_t least) {
  DeviceBytes policy;
  for (const std::string& text : texts) {
    const absl::Status status = AddBytes(text, least, policy);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text.substr(0, 300), ": ", status.message()));
  }
  return policy;
}

}  // namespace plimsoll::services
