// Several devices on one command line: their names, and the memory of each.
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

// Parses the devices of --device, such as "cuda:0,cuda:1,cpu", in the order in
// which a token passes them. The devices need not exist.
// Errors: kInvalidArgument for an empty name, a name that comes twice, and more
// than planner::kMaxSplitDevices.
absl::StatusOr<std::vector<std::string>> ParseDevices(absl::string_view text);

// The bytes of --device-memory for each of `n_devices`. Without a value they
// are absent; a single value holds for each device.
// Errors: kInvalidArgument for another number of values than of devices.
absl::StatusOr<std::vector<std::optional<int64_t>>> MemoryOfEach(
    const std::vector<int64_t>& values, size_t n_devices);

using ComputeDevices = std::vector<std::unique_ptr<worker::ComputeDevice>>;

// Opens devices for engines of one precision. Errors: those of
// OpenComputeDevice, naming the device; kInvalidArgument if two names mean the
// same device.
absl::StatusOr<ComputeDevices> OpenDevices(
    const std::vector<std::string>& names, worker::Precision precision);
// Checks that open devices are different, as OpenDevices does.
absl::Status CheckDistinct(
    const std::vector<std::string>& names,
    const std::vector<const worker::ComputeDevice*>& devices);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_DEVICE_LIST_H_
