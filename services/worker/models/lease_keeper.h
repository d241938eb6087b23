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
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/host/background.h"
#include "services/worker/models/options.h"
#include "services/worker/models/planner_client.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {

// Takes and releases leases, and renews every one each third of its time to
// live, on one thread; while the planner does not answer, after a jittered
// delay of at most 2 s. Each round also releases leases of this process that it
// does not know: those of a Reserve whose answer was lost, and those that a
// planner which crashed has found in its journal again. A worker goes on
// serving whatever the planner says. Thread-safe.
class LeaseKeeper {
 public:
  // Before a reservation's end, for the time a chunk of a load takes: at most
  // this, and at most a fifth of the time to live.
  static constexpr absl::Duration kMaxFenceMargin = absl::Seconds(2);
  static absl::Duration FenceMargin(absl::Duration ttl) {
    return std::min(kMaxFenceMargin, ttl / 5);
  }
  static constexpr absl::Duration kMaxBackoff = absl::Seconds(2);

  // `client` must outlive it, as `observer` must, which is told of leases that
  // the planner does not know any more; null: nobody is. `devices` are those
  // that leases are on.
  LeaseKeeper(PlannerClient& client, std::vector<WorkerDevice> devices,
              std::function<absl::Time()> clock,
              WorkerObserver* observer = nullptr);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // A lease of `bytes` on one of the devices, which is kept from now on.
  // Errors: those of PlannerClient::Reserve.
  absl::StatusOr<LeaseGrant> Reserve(const std::string& device_id,
                                     const std::string& purpose, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Gives a lease back; if the planner does not answer, as soon as it does.
  // Errors: those of PlannerClient::Release.
  absl::Status Release(const LeaseGrant& lease, int64_t shortfall_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The planner knows that `measured_bytes` are allocated. From now on every
  // renewal presents the lease, so that a planner that forgot it takes it back.
  void Confirmed(const std::string& lease_id, int64_t measured_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // From now on the lease's memory may be freed: renewals no longer vouch for
  // it.
  void Retire(const std::string& lease_id) ABSL_LOCKS_EXCLUDED(mu_);
  // Renews nothing from now on: the leases' memory is not to be trusted.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // OK while memory may be allocated on a lease that is not confirmed yet.
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
    bool is_lost = false;     // not renewed any more
    bool is_refused = false;  // was, at the last renewal
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // One round of calls. False if the planner did not answer.
  bool RenewAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool RegisterAll();
  bool ReleaseAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool ReleaseStrays() ABSL_LOCKS_EXCLUDED(mu_);
  void Keep(const LeaseGrant& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Leases that somebody holds or gives back.
  std::set<std::string> KnownIds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RenewOne(const std::string& lease_id, const WorkerDevice& device)
      ABSL_LOCKS_EXCLUDED(mu_);
  // What a renewal told. False if the planner did not answer.
  bool Learn(const std::string& lease_id, absl::Time asked,
             const absl::StatusOr<bool>& device_is_known)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Duration NextDelay(bool answered) ABSL_LOCKS_EXCLUDED(mu_);

  PlannerClient& client_;
  const std::vector<WorkerDevice> devices_;
  const std::function<absl::Time()> clock_;
  WorkerObserver* const observer_;
  std::minstd_rand jitter_;     // of Loop() only
  bool is_registered_ = false;  // of Loop() only: every device
  bool was_answered_ = true;    // of Loop() only
  bool was_refused_ = false;    // of Loop() only: a device, when last asked
  mutable absl::Mutex mu_;
  std::map<std::string, Kept> leases_ ABSL_GUARDED_BY(mu_);
  std::vector<LeaseGrant> unreleased_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> releasing_ ABSL_GUARDED_BY(mu_);  // ids, right now
  int64_t n_reserving_ ABSL_GUARDED_BY(mu_) = 0;          // right now
  int64_t n_reserved_ ABSL_GUARDED_BY(mu_) = 0;           // begun, ever
  absl::Duration delay_ ABSL_GUARDED_BY(mu_);             // to the next round
  bool is_early_ ABSL_GUARDED_BY(mu_) = false;  // that round is due now
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_LEASE_KEEPER_H_
