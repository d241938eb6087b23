#include "services/worker/process/worker_devices.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "planner/lease/lease_book.h"
#include "services/host/device_list.h"

namespace plimsoll::services {
namespace {

// --device-id for each device; empty where the device's own is to be taken.
absl::StatusOr<std::vector<std::string>> IdsOfEach(const std::string& ids,
                                                   size_t n_devices) {
  if (ids.empty()) return std::vector<std::string>(n_devices);
  if (n_devices == 1) return std::vector<std::string>{ids};
  std::vector<std::string> each = absl::StrSplit(ids, ',');
  if (each.size() == n_devices) return each;
  return absl::InvalidArgumentError(absl::StrCat(
      "--device-id has ", each.size(), each.size() == 1 ? " name" : " names",
      " for ", n_devices,
      " devices; give one for each, in the order of --device with commas "
      "between, or leave one empty for the device's own"));
}

std::string IdOf(const worker::ComputeDevice& device,
                 const std::string& host_name) {
  std::string own = device.unique_id();
  if (!own.empty()) return own;
  return host_name.empty() ? "cpu" : absl::StrCat(host_name, "/cpu");
}

}  // namespace

absl::StatusOr<std::vector<WorkerDevice>> DescribeDevices(
    const DeviceFlags& flags, const std::string& host_name,
    const std::vector<const worker::ComputeDevice*>& devices) {
  ASSIGN_OR_RETURN(const auto memory,
                   MemoryOfEach(flags.memory_bytes, devices.size()));
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   IdsOfEach(flags.ids, devices.size()));
  std::vector<WorkerDevice> described;
  for (size_t i = 0; i < devices.size(); ++i) {
    const worker::ComputeDevice* const device = devices[i];
    std::string id = ids[i].empty() ? IdOf(*device, host_name) : ids[i];
    if (static_cast<int64_t>(id.size()) > planner::LeaseBook::kMaxIdBytes) {
      return absl::InvalidArgumentError("--device-id: at most 256 bytes each");
    }
    for (const WorkerDevice& other : described) {
      if (other.id != id) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two devices are called ", id,
                       " for the planner; give each a name of its own with "
                       "--device-id"));
    }
    described.push_back({device, std::move(id), memory[i],
                         [device] { return device->Profile(); }});
  }
  return described;
}

}  // namespace plimsoll::services
