// Resets connections that send endlessly without letting the server answer.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_FLOOD_WATCH_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_FLOOD_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"

namespace plimsoll::services {

// gRPC 1.51 keeps a block of headers of any size from a client that does not
// acknowledge the server's settings. While such a block arrives (CONTINUATION
// frames), HTTP/2 gives the server nothing to answer. So the watch counts bytes
// that arrive while nothing is sent, by the kernel's TCP counters.
//
// An honest client has no more bytes on the way than the server's buffers hold,
// and gets window updates meanwhile. In a measurement, 64 messages of 4 MiB at
// once caused 49 MiB of unanswered bytes.
//
// Thread-safe. A thread looks every kInterval while there are connections.
class FloodWatch {
 public:
  // The limit for all connections together. Beyond it, the connection with the
  // most unanswered bytes is reset.
  static constexpr int64_t kMaxUnansweredBytes = int64_t{64} << 20;
  static constexpr absl::Duration kInterval = absl::Milliseconds(100);
  // After this many looks gRPC has freed the memory of a reset connection, and
  // the heap is trimmed.
  static constexpr int kLooksBeforeTrim = 10;

  // `address` is for the log. Errors: kResourceExhausted if the system gives
  // no thread.
  static absl::StatusOr<std::unique_ptr<FloodWatch>> Start(std::string address);
  ~FloodWatch();
  FloodWatch(const FloodWatch&) = delete;
  FloodWatch& operator=(const FloodWatch&) = delete;

  // Watches a connection of TCP from now on, which its owner may close at any
  // time.
  void Add(int fd);

 private:
  struct Connection {
    ino_t inode = 0;  // tells whether the descriptor is still this connection
    uint64_t n_sent = 0;
    uint64_t n_answered = 0;  // bytes received when the last byte was sent
    int64_t n_unanswered = 0;
  };

  explicit FloodWatch(std::string address) : address_(std::move(address)) {}

  void Run();
  // Reads the counters. Forgets connections that are over.
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ResetLargest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string address_;
  SteadyMutex mu_;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mu_);  // by descriptor
  int n_looks_to_trim_ ABSL_GUARDED_BY(mu_) = 0;  // 0: nothing to trim
  Background thread_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_FLOOD_WATCH_H_
