// Tells the service manager that started this process, such as systemd, when it
// is ready, that it is alive and when it stops.
#ifndef PLIMSOLL_SERVICES_HOST_SERVICE_MANAGER_H_
#define PLIMSOLL_SERVICES_HOST_SERVICE_MANAGER_H_

#include <sys/un.h>

#include <cstddef>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"

namespace plimsoll::services {

// The longest address of a manager's socket that the system takes.
inline constexpr size_t kMaxManagerAddressBytes =
    sizeof(sockaddr_un::sun_path) - 1;
// The shortest time between two beats, even if the watchdog's time is shorter.
inline constexpr absl::Duration kLeastBeat = absl::Milliseconds(1);
// The longest time between two beats, even if the watchdog's time is longer.
inline constexpr absl::Duration kMostBeat = absl::Hours(1);

// Sends one message, such as "READY=1", to the socket `address`: a path, or a
// name that begins with '@' (an abstract one). Never blocks.
// Errors: kInvalidArgument if `address` is neither or too long; kUnavailable if
// the message cannot be sent.
// Source: sd_notify(3).
absl::Status TellManager(absl::string_view address, absl::string_view message);

// Returns the time between two messages that the manager expects, by
// $WATCHDOG_USEC and $WATCHDOG_PID: twice in the watchdog's time, within
// kLeastBeat and kMostBeat. Absent if the manager expects none, or if the
// variables are for another process.
std::optional<absl::Duration> WantedBeat();

// Does nothing if no manager is named in the environment ($NOTIFY_SOCKET), and
// logs a warning if the manager cannot be reached. Used by one thread.
class ServiceManager {
 public:
  // While the process is alive, `check` returns true soon. While the process
  // hangs, it returns false or does not return, and the manager's watchdog ends
  // the process. It is called on a thread of its own; what it uses must outlive
  // this object.
  explicit ServiceManager(std::function<bool()> check);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // Reports that the process serves, and from then on that it is alive, if the
  // manager watches it. Throws std::system_error if the system gives no thread
  // for that.
  void Ready();
  // Reports that the process ends by itself. Reports that the process is alive
  // continue until this object ends.
  void Stopping();

 private:
  void Beat(absl::Duration interval);

  const std::function<bool()> check_;
  SteadyMutex mu_;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_SERVICE_MANAGER_H_
