// Writes a worker's reports about its work to the log.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_LOG_OBSERVER_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_LOG_OBSERVER_H_

#include <atomic>
#include <string>

#include "services/worker/models/options.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {

// Writes a line for each load, unload and lease and, if asked for, for each
// request that has ended. It does not log steps. Thread-safe.
class LogObserver final : public WorkerObserver {
 public:
  enum class Requests { kNotLogged, kLogged };
  // Returns the choice of --log-requests.
  static Requests RequestsOf(const WorkerOptions& options) {
    return options.logs_requests ? Requests::kLogged : Requests::kNotLogged;
  }
  explicit LogObserver(Requests requests) : requests_(requests) {}
  void SetRequests(Requests requests) { requests_ = requests; }

  void OnRequestEnd(const std::string& model,
                    const worker::RequestRecord& request) override;
  void OnLoadEnd(const LoadRecord& load) override;
  void OnUnload(const std::string& model) override;
  void OnLease(const LeaseRecord& lease) override;

 private:
  std::atomic<Requests> requests_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_LOG_OBSERVER_H_
