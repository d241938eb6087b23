// Streams a planner's devices: at once, and after every change.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_DEVICE_WATCH_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_DEVICE_WATCH_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

// Calls `show` for every state of the devices of the planner at `address`, on
// this thread, until it fails or the stream ends.
// Errors: those of `show`; CallStatus; InterruptedError.
absl::Status WatchDevices(
    const Endpoint& address,
    const std::function<absl::Status(const v1::WatchDevicesResponse&)>& show);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_DEVICE_WATCH_H_
