// The connections of a gateway to one worker.
#ifndef PLIMSOLL_SERVICES_GATEWAY_WORKER_LINK_H_
#define PLIMSOLL_SERVICES_GATEWAY_WORKER_LINK_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "services/server/tls_files.h"

namespace plimsoll::services {

// Requests that run share it with the set of workers, which may drop the
// worker. Thread-safe.
class WorkerLink {
 public:
  // A worker takes 128 streams on a connection, so there are several.
  static constexpr size_t kMaxConnections = 4;

  // `tls_name` is the name of the worker's certificate; empty: the address's.
  WorkerLink(const std::string& id, const ClientSecurity& security,
             const std::string& tls_name);

  const std::string& id() const { return id_; }
  // Returns a channel for one request. A channel that could not connect, and
  // that fails its calls until it tries again, is chosen only if all are so.
  std::shared_ptr<grpc::Channel> channel();
  // Returns the channel for questions about the worker itself, which no stream
  // delays.
  const std::shared_ptr<grpc::Channel>& own_channel() const {
    return own_channel_;
  }

 private:
  const std::string id_;
  const std::shared_ptr<grpc::Channel> own_channel_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_WORKER_LINK_H_
