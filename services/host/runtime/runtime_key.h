// The conditions under which a measurement of a process's runtime is valid:
// this machine's device, its system, and the program that was measured.
#ifndef PLIMSOLL_SERVICES_HOST_RUNTIME_RUNTIME_KEY_H_
#define PLIMSOLL_SERVICES_HOST_RUNTIME_RUNTIME_KEY_H_

#include <string>

#include "planner/layout/device_profile.h"
#include "planner/layout/runtime_profile.h"

namespace plimsoll::services {

// The build id that the linker wrote into a 64-bit ELF file, in hexadecimal.
// Empty if there is none or the file cannot be read.
std::string BuildIdOf(const std::string& path);

// The key for measurements of `program` on `device`.
planner::RuntimeKey RuntimeKeyOf(const planner::DeviceProfile& device,
                                 const std::string& program);

// Paths of this process's own program, and of the plimsoll-worker beside it.
std::string OwnProgram();
std::string InstalledWorker();

// The profile of this machine's CPU with the runtime bytes of a worker under
// `load`: measured by the worker beside this program, else the committed bound.
planner::DeviceProfile LocalProfile(const planner::RuntimeLoad& load);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_RUNTIME_RUNTIME_KEY_H_
