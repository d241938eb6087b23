// The counts of a gateway for the requests that it passes on.
#ifndef PLIMSOLL_SERVICES_GATEWAY_GATEWAY_COUNTS_H_
#define PLIMSOLL_SERVICES_GATEWAY_GATEWAY_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace plimsoll::services {

// Counts of replies. Each reply is one request to a worker.
struct GatewayCounts {
  std::atomic<int64_t> n_ok = 0;
  std::atomic<int64_t> n_failed = 0;   // replies that ended with an error
  std::atomic<int64_t> n_left = 0;     // replies whose clients went away
  std::atomic<int64_t> n_retries = 0;  // requests that went to another worker
  // Streams whose worker failed after the first part was sent.
  std::atomic<int64_t> n_broken = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_GATEWAY_COUNTS_H_
