#include "services/host/service_manager.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

// The variable's text, or nothing if there is none.
absl::string_view ManagerVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

absl::Status ManagerUnavailable(absl::string_view address) {
  return absl::UnavailableError(
      absl::StrCat("the service manager at ", address,
                   " cannot be told: ", std::strerror(errno)));
}

// Tells the manager that the environment names, if there is one.
void TellNamedManager(absl::string_view message) {
  const absl::string_view address = ManagerVariable("NOTIFY_SOCKET");
  if (address.empty()) return;
  const absl::Status status = TellManager(address, message);
  if (status.ok()) return;
  Log(LogLevel::kWarning, "the service manager does not hear of this process",
      {{"error", std::string(status.message())}});
}

}  // namespace

absl::Status TellManager(absl::string_view address, absl::string_view message) {
  if (address.empty() || (address[0] != '/' && address[0] != '@')) {
    return absl::InvalidArgumentError(
        absl::StrCat("the service manager's address \"", address,
                     "\" ($NOTIFY_SOCKET) is neither a path nor begins with "
                     "'@'"));
  }
  if (address.size() > kMaxManagerAddressBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the service manager's address ($NOTIFY_SOCKET) has ", address.size(),
        " bytes, at most ", kMaxManagerAddressBytes, " are accepted"));
  }
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address.data(), address.size());
  // The system marks an abstract address by a zero.
  if (address[0] == '@') to.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ManagerUnavailable(address);
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  const ssize_t sent =
      sendto(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<const sockaddr*>(&to), size);
  absl::Status status;
  if (sent != static_cast<ssize_t>(message.size())) {
    status = ManagerUnavailable(address);
  }
  close(fd);
  return status;
}

std::optional<absl::Duration> WantedBeat() {
  if (ManagerVariable("NOTIFY_SOCKET").empty()) return std::nullopt;
  int64_t watchdog_us = 0;
  if (!absl::SimpleAtoi(ManagerVariable("WATCHDOG_USEC"), &watchdog_us) ||
      watchdog_us <= 0) {
    return std::nullopt;
  }
  const absl::string_view pid = ManagerVariable("WATCHDOG_PID");
  if (!pid.empty() && pid != absl::StrCat(getpid())) return std::nullopt;
  return std::clamp(absl::Microseconds(watchdog_us) / 2, kLeastBeat, kMostBeat);
}

ServiceManager::ServiceManager(std::function<bool()> check)
    : check_(std::move(check)) {}

ServiceManager::~ServiceManager() {
  SteadyMutexLock lock(&mu_);
  has_ended_ = true;
}

void ServiceManager::Ready() {
  TellNamedManager("READY=1");
  const std::optional<absl::Duration> beat = WantedBeat();
  if (beat.has_value()) {
    thread_ = Background([this, interval = *beat] { Beat(interval); });
  }
}

void ServiceManager::Stopping() { TellNamedManager("STOPPING=1"); }

void ServiceManager::Beat(absl::Duration interval) {
  while (true) {
    {
      SteadyMutexLock lock(&mu_);
      if (mu_.AwaitFor(absl::Condition(&has_ended_), interval)) return;
    }
    if (check_()) TellNamedManager("WATCHDOG=1");
  }
}

}  // namespace plimsoll::services
