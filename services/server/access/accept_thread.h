// A thread that accepts connections, and continues after a lack of descriptors.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_ACCEPT_THREAD_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_ACCEPT_THREAD_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/host/background.h"

namespace plimsoll::services {

// A file descriptor that is closed at the end. Movable; not thread-safe.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Take()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();

  int get() const { return fd_; }
  // Gives the descriptor away.
  int Take();

 private:
  int fd_;
};

// Accepts the connections of listening sockets until it ends. The thread runs
// from Start to the destructor.
class AcceptThread {
 public:
  // Gets a non-blocking connection. The handler is called on the thread and
  // must not block.
  using Handler = std::function<void(OwnedFd connection)>;

  // The time after which accepting is tried again if the system had no room for
  // a connection. Connections wait in the system's queue meanwhile.
  static constexpr absl::Duration kPause = absl::Milliseconds(100);
  // While there is no room, the log says so this often.
  static constexpr absl::Duration kLogInterval = absl::Seconds(10);

  // The sockets listen and do not block. `address` is for the log.
  // Errors: kUnavailable if the system gives no descriptor; kResourceExhausted
  // if it gives no thread.
  static absl::StatusOr<std::unique_ptr<AcceptThread>> Start(
      std::vector<OwnedFd> sockets, std::string address, Handler handler);
  // Stops accepting, waits for the handler, and closes the sockets.
  ~AcceptThread();
  AcceptThread(const AcceptThread&) = delete;
  AcceptThread& operator=(const AcceptThread&) = delete;

 private:
  AcceptThread(std::vector<OwnedFd> sockets, std::string address,
               Handler handler);

  // Accepts until it is time to end.
  void Run();
  // Accepts one connection of each socket in `ready`. Returns false if the
  // system refused one of them now.
  bool AcceptOf(const std::vector<int>& ready);
  void LogNoRoom(int error);
  // Waits. Returns false if it is time to end.
  bool Pause() const;

  const std::vector<OwnedFd> sockets_;
  const std::string address_;
  const Handler handler_;
  OwnedFd end_;  // readable when it is time to end
  std::atomic<bool> is_over_ = false;
  absl::Time logged_at_ = absl::InfinitePast();  // used by the thread only
  Background thread_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_ACCEPT_THREAD_H_
