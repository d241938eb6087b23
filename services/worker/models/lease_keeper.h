// Keeps a worker's leases alive, and says until when it may allocate on them.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_LEASE_KEEPER_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_LEASE_KEEPER_H_

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"
#include "services/worker/models/options.h"
#include "services/worker/models/planner_client.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {

// Takes leases, releases them, and renews each one after a third of its time to
// live, on one thread. While the planner does not answer, the thread asks again
// after a random delay of at most 2 s. Each round also releases leases of this
// process that the keeper does not know: a Reserve whose answer was lost makes
// such leases, and so does a planner that crashed and found them in its journal
// again. The first rounds, and those after a silence, release what earlier
// processes of this worker left, if it knows them (HolderFile). A worker goes
// on serving whatever the planner says. Thread-safe.
class LeaseKeeper {
 public:
  // A load stops this long before its reservation ends, because a chunk that
  // has begun takes time. The margin is at most a fifth of the time to live.
  static constexpr absl::Duration kMaxFenceMargin = absl::Seconds(2);
  static absl::Duration FenceMargin(absl::Duration ttl) {
    return std::min(kMaxFenceMargin, ttl / 5);
  }
  static constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
  // A message of an earlier process may be on its way for so long when this
  // process starts.
  static constexpr absl::Duration kFormerPatience = absl::Seconds(15);

  // Leases are on `devices`. `observer` gets reports about leases; it may be
  // null. `client` and `observer` must outlive the keeper, which ends the
  // client's calls at its own end.
  LeaseKeeper(PlannerClient& client, std::vector<WorkerDevice> devices,
              std::function<absl::Time()> clock,
              WorkerObserver* observer = nullptr);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Takes a lease of `bytes` on one of the devices, and keeps it from now on.
  // Errors: those of PlannerClient::Reserve.
  absl::StatusOr<LeaseGrant> Reserve(const std::string& device_id,
                                     const std::string& purpose, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Gives a lease back. If the planner does not answer, a later round does it;
  // one that was silent just now is not asked before that.
  // Errors: those of PlannerClient::Release.
  absl::Status Release(const LeaseGrant& lease, int64_t shortfall_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The planner knows that `measured_bytes` are allocated. From now on every
  // renewal presents the lease, so that a planner that forgot it takes it back.
  void Confirmed(const std::string& lease_id, int64_t measured_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // From now on renewals no longer say that the lease's memory is in use, so
  // that it may be freed.
  void Retire(const std::string& lease_id) ABSL_LOCKS_EXCLUDED(mu_);
  // Renews nothing from now on: the leases' memory is not to be trusted.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns OK while memory may be allocated on a lease that is not confirmed.
  // Errors: kUnavailable once it was not renewed in time, or the planner does
  // not know it any more.
  absl::Status Fence(const std::string& lease_id) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Kept {
    LeaseGrant grant;
    const WorkerDevice* device;
    absl::Time fence;  // no allocation from here on
    std::optional<int64_t> measured_bytes = std::nullopt;  // once confirmed
    bool is_retired = false;
    bool is_lost = false;     // it is not renewed any more
    bool is_refused = false;  // the last renewal was refused
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Makes one round of calls. Returns false if the planner did not answer.
  bool RenewAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool RegisterAll();
  bool ReleaseAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool ReleaseStrays() ABSL_LOCKS_EXCLUDED(mu_);
  bool ReleaseFormer();
  // Tells the observer, if there is one.
  void Tell(LeaseEvent event, const LeaseGrant& lease,
            const absl::Status& error = absl::OkStatus());
  void Keep(const LeaseGrant& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The ids of leases that are held or being given back.
  std::set<std::string> KnownIds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RenewOne(const std::string& lease_id, const WorkerDevice& device)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the answer of a renewal that was asked for at `asked`. Returns false
  // if the planner did not answer.
  bool Learn(const std::string& lease_id, absl::Time asked,
             const absl::StatusOr<bool>& device_is_known)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool IsStopping() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::Duration NextDelay(bool answered) ABSL_LOCKS_EXCLUDED(mu_);

  PlannerClient& client_;
  const std::vector<WorkerDevice> devices_;
  const std::function<absl::Time()> clock_;
  WorkerObserver* const observer_;
  const absl::Time begin_;
  // Only Loop() uses the next five.
  std::minstd_rand jitter_;
  bool is_registered_ = false;  // the planner knows every device
  bool was_answered_ = true;
  bool was_refused_ = false;  // the planner refused a device when last asked
  bool is_done_with_former_ = false;
  mutable SteadyMutex mu_;
  std::map<std::string, Kept> leases_ ABSL_GUARDED_BY(mu_);
  std::vector<LeaseGrant> unreleased_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> releasing_ ABSL_GUARDED_BY(mu_);  // ids, right now
  int64_t n_reserving_ ABSL_GUARDED_BY(mu_) = 0;          // right now
  int64_t n_reserved_ ABSL_GUARDED_BY(mu_) = 0;           // begun, ever
  absl::Duration delay_ ABSL_GUARDED_BY(mu_);             // to the next round
  bool is_early_ ABSL_GUARDED_BY(mu_) = false;  // the next round is due now
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_LEASE_KEEPER_H_
