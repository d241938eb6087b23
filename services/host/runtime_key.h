// Where a measurement of a process's runtime holds: this machine's device, its
// system, and the very program that was measured.
#ifndef PLIMSOLL_SERVICES_HOST_RUNTIME_KEY_H_
#define PLIMSOLL_SERVICES_HOST_RUNTIME_KEY_H_

#include <string>

#include "planner/layout/device_profile.h"
#include "planner/layout/runtime_profile.h"

namespace plimsoll::services {

// The build id that the linker wrote into a 64-bit ELF file, in hexadecimal;
// empty if there is none or the file cannot be read.
std::string BuildIdOf(const std::string& path);

// The key of what `program` takes of `device`.
planner::RuntimeKey RuntimeKeyOf(const planner::DeviceProfile& device,
                                 const std::string& program);

// This process's own program, and the plimsoll-worker beside it.
std::string OwnProgram();
std::string InstalledWorker();

// This machine's CPU with the runtime of a worker under `load`: as the worker
// beside this program has measured it, else the committed bound.
planner::DeviceProfile LocalProfile(const planner::RuntimeLoad& load);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_RUNTIME_KEY_H_
