#include "services/server/access/flood_watch.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "services/host/heap.h"
#include "services/host/log.h"
#include "services/server/access/accept_thread.h"

namespace plimsoll::services {
namespace {

constexpr int kEstablished = 1;  // TCP_ESTABLISHED

struct Counters {
  uint64_t n_received = 0;
  uint64_t n_sent = 0;
};

// Returns nothing unless the descriptor is an open connection of TCP whose
// bytes the kernel counts (Linux 4.19).
std::optional<Counters> ReadCounters(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_sent) + sizeof(uint64_t) ||
      info.tcpi_state != kEstablished) {
    return std::nullopt;
  }
  return Counters{.n_received = info.tcpi_bytes_received,
                  .n_sent = info.tcpi_bytes_sent};
}

// Returns 0 if there is no such descriptor.
ino_t InodeOf(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Resets the connection of this inode. Its owner may close the descriptor at
// any time, and another file may get its number, so a copy is looked at.
// Returns false if that has happened.
bool Reset(int fd, ino_t inode) {
  const OwnedFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  sockaddr none = {};
  none.sa_family = AF_UNSPEC;
  return InodeOf(copy.get()) == inode &&
         connect(copy.get(), &none, sizeof(none)) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FloodWatch>> FloodWatch::Start(
    std::string address) {
  auto watch = absl::WrapUnique(new FloodWatch(std::move(address)));
  ASSIGN_OR_RETURN(watch->thread_,
                   Background::Start([raw = watch.get()] { raw->Run(); }));
  return watch;
}

FloodWatch::~FloodWatch() {
  {
    SteadyMutexLock lock(&mu_);
    is_over_ = true;
  }
  thread_.Join();
}

void FloodWatch::Add(int fd) {
  const std::optional<Counters> counters = ReadCounters(fd);
  if (!counters.has_value()) return;
  SteadyMutexLock lock(&mu_);
  connections_[fd] = {.inode = InodeOf(fd),
                      .n_sent = counters->n_sent,
                      .n_answered = counters->n_received};
}

void FloodWatch::Look() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection& connection = it->second;
    const std::optional<Counters> counters = ReadCounters(it->first);
    // Fewer bytes than before are those of another connection.
    if (!counters.has_value() || counters->n_sent < connection.n_sent ||
        counters->n_received < connection.n_answered) {
      it = connections_.erase(it);
      continue;
    }
    if (counters->n_sent > connection.n_sent) {
      connection.n_sent = counters->n_sent;
      connection.n_answered = counters->n_received;
    }
    connection.n_unanswered =
        static_cast<int64_t>(counters->n_received - connection.n_answered);
    ++it;
  }
}

void FloodWatch::ResetLargest() {
  int64_t n_unanswered = 0;
  auto largest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    n_unanswered += it->second.n_unanswered;
    if (largest == connections_.end() ||
        it->second.n_unanswered > largest->second.n_unanswered) {
      largest = it;
    }
  }
  if (n_unanswered <= kMaxUnansweredBytes) return;
  if (Reset(largest->first, largest->second.inode)) {
    Log(LogLevel::kWarning,
        "a connection is reset: it sends without end, as in a flood of headers",
        {{"address", address_}, {"bytes", largest->second.n_unanswered}});
    n_looks_to_trim_ = kLooksBeforeTrim;
  }
  connections_.erase(largest);
}

void FloodWatch::Run() {
  SteadyMutexLock lock(&mu_);
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return is_over_ || !connections_.empty() || n_looks_to_trim_ > 0;
  };
  while (!is_over_) {
    mu_.Await(absl::Condition(&has_work));
    if (mu_.AwaitFor(absl::Condition(&is_over_), kInterval)) return;
    Look();
    ResetLargest();
    if (n_looks_to_trim_ > 0 && --n_looks_to_trim_ == 0) TrimHeap();
  }
}

}  // namespace plimsoll::services
