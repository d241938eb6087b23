// Runs work that may fail for lack of memory.
#ifndef PLIMSOLL_SERVICES_HOST_MEMORY_GUARD_H_
#define PLIMSOLL_SERVICES_HOST_MEMORY_GUARD_H_

#include <new>

#include "absl/status/status.h"

namespace plimsoll::services {

// The error of work that got no memory.
inline absl::Status NoMemory() {
  return absl::ResourceExhaustedError(
      "the system gave the process no memory for this; ask for less, or try it "
      "later");
}

// Returns the result of `work`: a Status, or a StatusOr.
// Errors: those of `work`; NoMemory if an allocation of `work` failed. Memory
// that `work` had allocated is freed.
template <typename Work>
auto WithinMemory(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_MEMORY_GUARD_H_
