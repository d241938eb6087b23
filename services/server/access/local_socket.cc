#include "services/server/access/local_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::services {
namespace {

// The groups of a process; the kernel's limit is 65,536.
constexpr size_t kMaxGroups = 1 << 16;

absl::Status SystemError(absl::string_view what, absl::string_view path) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

absl::Status Unusable(absl::string_view path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", why));
}

sockaddr_un AddressOf(const std::string& path) {
  static_assert(kMaxSocketPathBytes + 1 == sizeof(sockaddr_un::sun_path));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kMaxSocketPathBytes);
  return address;
}

// Whoever may write to the folder can put another socket in the place of ours,
// and so be taken for the server.
absl::Status CheckFolder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0) {
    return Unusable(folder, absl::StrCat("cannot be used for a socket: ",
                                         std::strerror(errno)));
  }
  if (!S_ISDIR(found.st_mode)) return Unusable(folder, "is no folder");
  if (found.st_uid != 0 && found.st_uid != geteuid()) {
    return Unusable(
        folder,
        "belongs to another user, who could put another socket "
        "into the place of the server's; take a folder of your own");
  }
  const bool is_shared = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (is_shared && (found.st_mode & S_ISVTX) == 0) {
    return Unusable(folder,
                    "can be written by others, who could put another socket "
                    "into the place of the server's; run chmod go-w on it");
  }
  return absl::OkStatus();
}

std::vector<gid_t> GroupsOfSocket(int fd, gid_t gid) {
  std::vector<gid_t> gids(64);
  while (true) {
    auto n_bytes = static_cast<socklen_t>(gids.size() * sizeof(gid_t));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, gids.data(), &n_bytes) == 0) {
      gids.resize(n_bytes / sizeof(gid_t));
      break;
    }
    // A kernel that tells no groups tells the one of the process.
    if (errno != ERANGE || gids.size() >= kMaxGroups) {
      gids.clear();
      break;
    }
    gids.resize(2 * gids.size());
  }
  gids.push_back(gid);
  return gids;
}

}  // namespace

absl::StatusOr<LocalPeer> PeerOfSocket(int fd) {
  ucred peer = {};
  socklen_t n_bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) != 0) {
    return SystemError("who calls is not known at", "a Unix socket");
  }
  // A process of a user namespace that this one does not know has the ids of
  // nobody. Before a connection the kernel has -1.
  if (peer.uid == static_cast<uid_t>(-1)) {
    return absl::UnavailableError("this socket has no other end");
  }
  return LocalPeer{peer.uid, GroupsOfSocket(fd, peer.gid), peer.pid};
}

LocalSocket::LocalSocket(std::string path, Handler handler)
    : path_(std::move(path)), handler_(std::move(handler)) {}

absl::StatusOr<std::unique_ptr<LocalSocket>> LocalSocket::Listen(
    const std::string& path, mode_t mode, Handler handler) {
  RETURN_IF_ERROR(CheckFolder(path));
  auto made = absl::WrapUnique(new LocalSocket(path, std::move(handler)));
  RETURN_IF_ERROR(made->Lock());
  RETURN_IF_ERROR(made->RemoveStale());
  ASSIGN_OR_RETURN(OwnedFd socket, made->Bind(mode));
  std::vector<OwnedFd> sockets;
  sockets.push_back(std::move(socket));
  ASSIGN_OR_RETURN(
      made->thread_,
      AcceptThread::Start(std::move(sockets), absl::StrCat(kUnixPrefix, path),
                          [raw = made.get()](OwnedFd connection) {
                            raw->Greet(std::move(connection));
                          }));
  return made;
}

LocalSocket::~LocalSocket() {
  thread_ = nullptr;
  struct stat found = {};
  const bool is_ours = made_.has_value() && lstat(path_.c_str(), &found) == 0 &&
                       *made_ == FileId(found.st_dev, found.st_ino);
  if (is_ours) unlink(path_.c_str());
}

absl::Status LocalSocket::Lock() {
  const std::string name = path_ + ".lock";
  lock_ = OwnedFd(
      open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock_.get() < 0) return SystemError("cannot open", name);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return SystemError("cannot lock", name);
  return absl::UnavailableError(
      absl::StrCat("another server listens on ", kUnixPrefix, path_));
}

absl::Status LocalSocket::RemoveStale() const {
  struct stat found = {};
  if (lstat(path_.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : SystemError("cannot use", path_);
  }
  if (!S_ISSOCK(found.st_mode)) {
    return Unusable(path_, "is there and is no socket; remove it yourself");
  }
  const OwnedFd probe(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return SystemError("cannot use", path_);
  const sockaddr_un address = AddressOf(path_);
  const bool is_answered =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0;
  // Only this error says that nobody listens.
  if (is_answered || errno != ECONNREFUSED) {
    return absl::UnavailableError(absl::StrCat(
        "somebody may listen on ", kUnixPrefix, path_,
        is_answered ? "" : absl::StrCat(": ", std::strerror(errno))));
  }
  if (unlink(path_.c_str()) != 0) return SystemError("cannot replace", path_);
  return absl::OkStatus();
}

absl::StatusOr<OwnedFd> LocalSocket::Bind(mode_t mode) {
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(path_);
  if (fd.get() < 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return SystemError("cannot listen on", path_);
  }
  struct stat made = {};
  if (lstat(path_.c_str(), &made) != 0) {
    return SystemError("cannot listen on", path_);
  }
  made_ = FileId(made.st_dev, made.st_ino);
  // Nobody can connect before `listen`, whatever mode the file has until then.
  if (chmod(path_.c_str(), mode) != 0 || listen(fd.get(), kBacklog) != 0) {
    return SystemError("cannot listen on", path_);
  }
  return fd;
}

void LocalSocket::Greet(OwnedFd connection) const {
  const absl::StatusOr<LocalPeer> peer = PeerOfSocket(connection.get());
  if (peer.ok()) handler_(std::move(connection), *peer);
}

}  // namespace plimsoll::services
