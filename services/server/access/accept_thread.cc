#include "services/server/access/accept_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

// The connection is gone again, and the next one may be there.
bool IsOver(int error) {
  return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

int OwnedFd::Take() { return std::exchange(fd_, -1); }

AcceptThread::AcceptThread(std::vector<OwnedFd> sockets, std::string address,
                           Handler handler)
    : sockets_(std::move(sockets)),
      address_(std::move(address)),
      handler_(std::move(handler)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

absl::StatusOr<std::unique_ptr<AcceptThread>> AcceptThread::Start(
    std::vector<OwnedFd> sockets, std::string address, Handler handler) {
  auto made = absl::WrapUnique(new AcceptThread(
      std::move(sockets), std::move(address), std::move(handler)));
  if (made->end_.get() < 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", made->address_, ": ", std::strerror(errno)));
  }
  ASSIGN_OR_RETURN(made->thread_,
                   Background::Start([raw = made.get()] { raw->Run(); }));
  return made;
}

AcceptThread::~AcceptThread() {
  is_over_ = true;
  const uint64_t one = 1;
  if (end_.get() >= 0 && write(end_.get(), &one, sizeof(one)) < 0) {
    // Its counter is not 0, so it is readable all the same.
  }
  thread_.Join();
}

void AcceptThread::LogNoRoom(int error) {
  const absl::Time now = absl::Now();
  if (now >= logged_at_ && now < logged_at_ + kLogInterval) return;
  logged_at_ = now;
  Log(LogLevel::kError, "a connection waits: the system has no room for it",
      {{"address", address_}, {"error", std::string(std::strerror(error))}});
}

bool AcceptThread::AcceptOf(const std::vector<int>& ready) {
  bool has_room = true;
  for (const int socket : ready) {
    OwnedFd connection(
        accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.get() >= 0) {
      handler_(std::move(connection));
    } else if (!IsOver(errno)) {
      LogNoRoom(errno);
      has_room = false;
    }
  }
  return has_room;
}

bool AcceptThread::Pause() const {
  pollfd end = {.fd = end_.get(), .events = POLLIN, .revents = 0};
  const int n =
      poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(kPause)));
  // A limit of no descriptors at all is one for `poll` too.
  if (n < 0) absl::SleepFor(kPause);
  return !is_over_;
}

void AcceptThread::Run() {
  std::vector<pollfd> waits;
  waits.reserve(sockets_.size() + 1);
  waits.push_back({.fd = end_.get(), .events = POLLIN, .revents = 0});
  for (const OwnedFd& socket : sockets_) {
    waits.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
  }
  std::vector<int> ready;
  ready.reserve(sockets_.size());
  while (true) {
    const int n = poll(waits.data(), waits.size(), -1);
    if (n < 0 && errno != EINTR) {
      // There is no memory for it now, or the limit of descriptors is too low.
      LogNoRoom(errno);
      if (!Pause()) return;
    }
    if (n < 0) continue;
    if (waits.front().revents != 0) return;
    ready.clear();
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0) ready.push_back(waits[i].fd);
    }
    if (!AcceptOf(ready) && !Pause()) return;
  }
}

}  // namespace plimsoll::services
