// Threads that services start.
#ifndef PLIMSOLL_SERVICES_HOST_BACKGROUND_H_
#define PLIMSOLL_SERVICES_HOST_BACKGROUND_H_

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/start_thread.h"
#include "services/host/crash/memory_failure.h"
#include "services/host/memory_guard.h"

namespace plimsoll::services {

// A thread that does one piece of work and is joined at the end. Movable; not
// thread-safe.
class Background {
 public:
  Background() = default;
  // Starts a thread without which the process cannot run. Throws
  // std::system_error if the system gives no thread, which ends the start
  // (NeedsThreads).
  explicit Background(std::function<void()> work) : thread_(std::move(work)) {}
  // Starts a thread while the process runs.
  // Errors: kResourceExhausted; `work` is then not run.
  static absl::StatusOr<Background> Start(std::function<void()> work) {
    ASSIGN_OR_RETURN(std::thread thread, kernels::StartThread(std::move(work)));
    Background background;
    background.thread_ = std::move(thread);
    return background;
  }
  Background(Background&&) noexcept = default;
  // The assigned object must not run anything.
  Background& operator=(Background&&) noexcept = default;
  ~Background() { Join(); }

  // Waits until the work is done; returns at once if there is none.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  // Lets the work continue after this object ends; the work must own everything
  // that it uses.
  void Detach() {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  std::thread thread_;
};

// Runs `start`, which starts threads without which the process cannot run, and
// ends the process if there is no memory (MemoryFailure::kEndsProcess).
// Errors: those of `start`; kResourceExhausted if the system refused a thread,
// or memory to this thread within a scope that lets it.
inline absl::Status NeedsThreads(absl::FunctionRef<absl::Status()> start) {
  const MemoryFailureScope scope(MemoryFailure::kEndsProcess);
  try {
    return WithinMemory(start);
  } catch (const std::system_error&) {
    return kernels::NoThread();
  }
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_BACKGROUND_H_
