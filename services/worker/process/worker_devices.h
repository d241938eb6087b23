// A worker's devices, from its flags and what was opened.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_DEVICES_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/models/options.h"
#include "worker/device/compute_device.h"

namespace plimsoll::services {

// The devices of `flags`, opened in its order, which outlive what is returned.
// To a planner a device is called what --device-id says, else what its vendor
// calls it, which is the same in every container, else HOST/cpu; `host_name` is
// empty without a planner.
// Errors: kInvalidArgument for another number of budgets or ids than of devices
// and for two devices of one id.
absl::StatusOr<std::vector<WorkerDevice>> DescribeDevices(
    const DeviceFlags& flags, const std::string& host_name,
    const std::vector<const worker::ComputeDevice*>& devices);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_DEVICES_H_
