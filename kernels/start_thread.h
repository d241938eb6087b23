// Starts a thread, or says that the system refuses one.
#ifndef PLIMSOLL_KERNELS_START_THREAD_H_
#define PLIMSOLL_KERNELS_START_THREAD_H_

#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::kernels {

// The error of a thread that the system refused.
inline absl::Status NoThread() {
  return absl::ResourceExhaustedError(
      "the system gives no further thread: raise the limit of threads "
      "(pids.max of the cgroup, ulimit -u)");
}

// Runs `work` on a new thread.
// Errors: kResourceExhausted if the system gives no thread, for example under a
// limit of processes; `work` is then not run.
template <typename Work>
absl::StatusOr<std::thread> StartThread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return NoThread();
  }
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_START_THREAD_H_
