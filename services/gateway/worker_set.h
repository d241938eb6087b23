// The workers behind a gateway, and their reports about themselves.
#ifndef PLIMSOLL_SERVICES_GATEWAY_WORKER_SET_H_
#define PLIMSOLL_SERVICES_GATEWAY_WORKER_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "plimsoll/v1/model.pb.h"
#include "services/gateway/worker_book.h"
#include "services/gateway/worker_link.h"
#include "services/host/background.h"
#include "services/server/tls_files.h"
#include "services/worker/models/model_info.h"

namespace plimsoll::services {

struct WorkerSetOptions {
  std::vector<std::string> workers;  // HOST:PORT
  std::string name = "";             // NAME:PORT to look up; empty: none
  ClientSecurity security = {};
};

// Thread-safe, except for construction and destruction. It outlives all calls.
class WorkerSet {
 public:
  // The time between two questions to a worker about its state.
  static constexpr absl::Duration kInterval = absl::Milliseconds(500);
  // A worker that has not answered within this time is not ready.
  static constexpr absl::Duration kAnswerTime = absl::Seconds(2);
  // The time between two lookups of the name.
  static constexpr absl::Duration kLookupInterval = absl::Seconds(5);

  // Throws std::system_error if the system gives no thread.
  explicit WorkerSet(WorkerSetOptions options);
  ~WorkerSet();
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  // A request's place at a worker, from Begin on. The destructor gives the
  // place back, and if End was not called before, it means that the client has
  // left.
  class Place {
   public:
    Place(WorkerSet& set, int64_t bytes) : set_(set), bytes_(bytes) {}
    ~Place() {
      if (link_ != nullptr) set_.Release(link_->id(), bytes_, end_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    void Begin(const std::shared_ptr<WorkerLink>& link) { link_ = link; }
    WorkerLink& link() { return *link_; }
    void End(WorkerEnd end) { end_ = end; }

   private:
    WorkerSet& set_;
    std::shared_ptr<WorkerLink> link_;
    const int64_t bytes_;
    WorkerEnd end_ = WorkerEnd::kLeft;
  };

  // Errors: those of WorkerBook::Enter.
  absl::StatusOr<std::unique_ptr<Place>> Enter(const WorkerWish& wish)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The model that a request means by `name`: one of the workers' models, or
  // the only one for an empty name.
  // Errors: kNotFound; kInvalidArgument for an empty name where there are
  // several; kUnavailable, with a retry delay, if no worker has answered yet.
  absl::StatusOr<ModelInfo> FindModel(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns all workers' models, by name. The description of a model that
  // several workers have comes from a worker that has loaded it, with the
  // shortest context of the workers that have loaded it.
  std::vector<ModelInfo> Models() ABSL_LOCKS_EXCLUDED(mu_);
  // A copy of the book of the workers.
  WorkerBook Book() ABSL_LOCKS_EXCLUDED(mu_);
  bool has_ready() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Poll;
  struct Known {
    std::shared_ptr<WorkerLink> link;
    std::vector<ModelInfo> models = {};
  };

  void Release(const std::string& id, int64_t bytes, WorkerEnd end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Looks the name up, over and over.
  void LookUp() ABSL_LOCKS_EXCLUDED(mu_);
  // Asks all workers, over and over.
  void Watch() ABSL_LOCKS_EXCLUDED(mu_);
  void AskAll() ABSL_LOCKS_EXCLUDED(mu_);
  void OnAnswer(const std::string& id, const absl::Status& status,
                const v1::ListModelsResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  void SetAddresses(const std::vector<std::string>& found)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends both threads.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns false immediately when the set ends.
  bool Sleep(absl::Duration time) ABSL_LOCKS_EXCLUDED(mu_);

  const WorkerSetOptions options_;
  SteadyMutex mu_;
  WorkerBook book_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background lookup_;  // last: both use everything above
  Background watch_;
};

// Returns the current addresses, as HOST:PORT, of `name`, which is NAME:PORT.
// Errors: kUnavailable if it has none.
absl::StatusOr<std::vector<std::string>> LookUpAll(const std::string& name);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_WORKER_SET_H_
