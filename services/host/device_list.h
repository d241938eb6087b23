// Several devices on one command line: their names, and what belongs to each.
#ifndef PLIMSOLL_SERVICES_HOST_DEVICE_LIST_H_
#define PLIMSOLL_SERVICES_HOST_DEVICE_LIST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/compute_device.h"

namespace plimsoll::services {

// "cuda:0,cuda:1,cpu": the devices of --device, in the order in which a token
// passes them. What a name means is not looked at.
// Errors: kInvalidArgument for an empty name, one that is there twice, and more
// than planner::kMaxSplitDevices.
absl::StatusOr<std::vector<std::string>> ParseDevices(absl::string_view text);

// The bytes of --device-memory for each of `n_devices`: absent without a value;
// one value is each device's own.
// Errors: kInvalidArgument for another number of values than of devices.
absl::StatusOr<std::vector<std::optional<int64_t>>> MemoryOfEach(
    const std::vector<int64_t>& values, size_t n_devices);

using ComputeDevices = std::vector<std::unique_ptr<worker::ComputeDevice>>;

// For engines of one precision. Errors: those of OpenComputeDevice, naming the
// device; kInvalidArgument if two names turn out to be one device.
absl::StatusOr<ComputeDevices> OpenDevices(
    const std::vector<std::string>& names, worker::Precision precision);
// The second half of OpenDevices, for devices that are open.
absl::Status CheckDistinct(
    const std::vector<std::string>& names,
    const std::vector<const worker::ComputeDevice*>& devices);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_DEVICE_LIST_H_
