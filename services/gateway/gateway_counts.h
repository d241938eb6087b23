// What a gateway counts of the requests that it passes on.
#ifndef PLIMSOLL_SERVICES_GATEWAY_GATEWAY_COUNTS_H_
#define PLIMSOLL_SERVICES_GATEWAY_GATEWAY_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace plimsoll::services {

// Replies, each of which is a request to a worker.
struct GatewayCounts {
  std::atomic<int64_t> n_ok = 0;
  std::atomic<int64_t> n_failed = 0;   // they ended with an error
  std::atomic<int64_t> n_left = 0;     // their clients went away
  std::atomic<int64_t> n_retries = 0;  // requests that went to another worker
  // Streams whose worker was gone after their first part.
  std::atomic<int64_t> n_broken = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_GATEWAY_COUNTS_H_
