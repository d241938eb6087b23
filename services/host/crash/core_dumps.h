// Prevents that a crash of this process writes its memory to a file.
#ifndef PLIMSOLL_SERVICES_HOST_CRASH_CORE_DUMPS_H_
#define PLIMSOLL_SERVICES_HOST_CRASH_CORE_DUMPS_H_

namespace plimsoll::services {

// The limit of a process without core dumps, in bytes. It is not 0, because
// Linux passes a dump to a program (a core_pattern that begins with '|') with
// any limit except 1. A file has at least a page, so with this limit it is not
// written either.
inline constexpr int kNoCoreBytes = 1;

// From now on neither this process nor its child processes leave a core dump,
// which would hold the prompts of all tenants. This cannot be undone. Call it
// before the process reads any data.
void ForbidCoreDumps();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CRASH_CORE_DUMPS_H_
