// A Unix socket in the file system, whose connections tell the calling process.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_LOCAL_SOCKET_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_LOCAL_SOCKET_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/server/access/accept_thread.h"
#include "services/server/access/grants.h"

namespace plimsoll::services {

// Returns the process that connected `fd`, a connection of a Unix socket.
// Errors: kUnavailable if the system does not tell.
absl::StatusOr<LocalPeer> PeerOfSocket(int fd);

// Listens at a path. A thread accepts connections and hands them on. The file
// PATH.lock, which stays, is locked meanwhile, so that two servers never take a
// path from each other. Thread-safe, except for construction and destruction.
class LocalSocket {
 public:
  // Gets a non-blocking connection and the process that made it. The handler is
  // called on the socket's thread and must not block.
  using Handler = std::function<void(OwnedFd connection, const LocalPeer&)>;

  static constexpr int kBacklog = 128;
  static constexpr mode_t kDefaultMode = 0660;

  // Makes a socket at `path`, which nobody can connect to before it has the
  // file mode `mode`. An existing socket is replaced if nobody listens on it.
  // Errors: kFailedPrecondition if the folder is missing or belongs to another
  // user than root and this one, if others may write to it and it is not
  // sticky, or if there is a file at `path` that is no socket; kUnavailable if
  // somebody listens there, or the system refuses; kResourceExhausted if it
  // gives no thread.
  static absl::StatusOr<std::unique_ptr<LocalSocket>> Listen(
      const std::string& path, mode_t mode, Handler handler);
  // Stops accepting, waits for the handler, and removes the socket.
  ~LocalSocket();
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;

 private:
  using FileId = std::pair<dev_t, ino_t>;

  LocalSocket(std::string path, Handler handler);

  absl::Status Lock();
  absl::Status RemoveStale() const;
  // Returns the socket, which listens.
  absl::StatusOr<OwnedFd> Bind(mode_t mode);
  void Greet(OwnedFd connection) const;

  const std::string path_;
  const Handler handler_;
  OwnedFd lock_;
  std::optional<FileId> made_;  // the socket's file
  std::unique_ptr<AcceptThread> thread_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_LOCAL_SOCKET_H_
