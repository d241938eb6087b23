#include "services/host/device_list.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "planner/layout/layer_split.h"

namespace plimsoll::services {

absl::StatusOr<std::vector<std::string>> ParseDevices(absl::string_view text) {
  std::vector<std::string> names = absl::StrSplit(text, ',');
  if (static_cast<int64_t>(names.size()) > planner::kMaxSplitDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        names.size(), " devices are named; a model lies on at most ",
        planner::kMaxSplitDevices));
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) {
      return absl::InvalidArgumentError(
          "a device has no name; write names with one comma between two, such "
          "as cuda:0,cuda:1,cpu");
    }
    if (std::find(names.begin(), name, *name) == name) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "device '", absl::string_view(*name).substr(0, 40),
        "' is named twice; a device takes consecutive layers, so name each "
        "once"));
  }
  return names;
}

absl::StatusOr<std::vector<std::optional<int64_t>>> MemoryOfEach(
    const std::vector<int64_t>& values, size_t n_devices) {
  if (values.empty()) {
    return std::vector<std::optional<int64_t>>(n_devices);
  }
  if (values.size() == 1) {
    return std::vector<std::optional<int64_t>>(n_devices, values.front());
  }
  if (values.size() == n_devices) {
    return std::vector<std::optional<int64_t>>(values.begin(), values.end());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--device-memory has ", values.size(), " values for ", n_devices,
      n_devices == 1 ? " device" : " devices",
      "; give one for each, in the order of --device, or one value that is "
      "each device's own"));
}

absl::Status CheckDistinct(
    const std::vector<std::string>& names,
    const std::vector<const worker::ComputeDevice*>& devices) {
  std::map<std::string, std::string> name_of;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string id = devices[i]->unique_id();
    if (id.empty()) continue;
    const auto [at, is_new] = name_of.emplace(id, names[i]);
    if (is_new) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--device: ", at->second, " and ", names[i],
                     " are one device, ", id, "; name it once"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ComputeDevices> OpenDevices(
    const std::vector<std::string>& names, worker::Precision precision) {
  ComputeDevices devices;
  std::vector<const worker::ComputeDevice*> opened;
  for (const std::string& name : names) {
    auto device =
        worker::OpenComputeDevice(name, worker::CudaOptionsFor(precision));
    if (!device.ok()) {
      return absl::Status(
          device.status().code(),
          absl::StrCat("--device ", name, ": ", device.status().message()));
    }
    opened.push_back(device->get());
    devices.push_back(*std::move(device));
  }
  RETURN_IF_ERROR(CheckDistinct(names, opened));
  return devices;
}

}  // namespace plimsoll::services
