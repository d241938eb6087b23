// The reference backend as a device, for comparison with the results of other
// devices.
#ifndef PLIMSOLL_WORKER_DEVICE_REFERENCE_DEVICE_H_
#define PLIMSOLL_WORKER_DEVICE_REFERENCE_DEVICE_H_

#include "worker/device/compute_device.h"

namespace plimsoll::worker {

// This machine's memory, and the reference's operations: slow, and on one
// thread even if an engine has more.
const ComputeDevice& ReferenceCpu();

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_REFERENCE_DEVICE_H_
