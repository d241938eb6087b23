// Makes a worker's devices of its flags and of the devices that were opened.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_DEVICES_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/models/options.h"
#include "worker/device/compute_device.h"

namespace plimsoll::services {

// `devices` are those of `flags`, opened in the same order; they must outlive
// the result. The planner knows a device by --device-id, else by its vendor's
// name, which is the same in every container, else as HOST/cpu. `host_name` is
// empty without a planner.
// Errors: kInvalidArgument if the number of budgets or ids is not the number of
// devices, or if two devices have the same id.
absl::StatusOr<std::vector<WorkerDevice>> DescribeDevices(
    const DeviceFlags& flags, const std::string& host_name,
    const std::vector<const worker::ComputeDevice*>& devices);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_DEVICES_H_
