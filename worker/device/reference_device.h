// The reference backend as a device, with which other devices' results are
// compared.
#ifndef PLIMSOLL_WORKER_DEVICE_REFERENCE_DEVICE_H_
#define PLIMSOLL_WORKER_DEVICE_REFERENCE_DEVICE_H_

#include "worker/device/compute_device.h"

namespace plimsoll::worker {

// This machine's memory, and the reference's operations: slow, and on one
// thread whatever an engine's threads.
const ComputeDevice& ReferenceCpu();

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_REFERENCE_DEVICE_H_
