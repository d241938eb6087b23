// Who holds how much of which device: the lease book, its journal and the
// device registry behind one mutex.
#ifndef PLIMSOLL_SERVICES_PLANNER_LEDGER_H_
#define PLIMSOLL_SERVICES_PLANNER_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/device_profile.h"
#include "planner/lease_book.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/planner/journal.h"
#include "services/planner/process_watch.h"

namespace plimsoll::services {

struct LedgerOptions {
  std::function<absl::Time()> clock;           // never goes back
  std::unique_ptr<Journal> journal = nullptr;  // null: none
  // No earlier planner has granted what may still be held, so that a ledger
  // without its whole journal need not recover.
  bool is_first = true;
  // Above the epochs of all earlier planners. A whole journal knows better.
  int64_t first_epoch = 1;
};

// Told of all devices whenever one changed. Both are called under the ledger's
// mutex: they must not call it, and not block.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  virtual void OnDevices(const v1::WatchDevicesResponse& devices) = 0;
  virtual void OnWatchEnd(const absl::Status& status) = 0;
};

// Thread-safe. Every method that takes a request answers one call of
// PlannerService; planner.proto says what each does, and errors carry their
// ErrorDetails.
class Ledger {
 public:
  static constexpr size_t kMaxListeners = 256;

  // A registered device, and the bytes that a Reserve could get now.
  struct Device {
    planner::DeviceProfile profile;
    int64_t available_bytes;
  };

  explicit Ledger(LedgerOptions options);
  explicit Ledger(std::function<absl::Time()> clock)
      : Ledger(LedgerOptions{.clock = std::move(clock)}) {}

  // As a Reserve for `purpose` would find it.
  // Errors: kNotFound with DEVICE_NOT_FOUND; kUnavailable with
  // DEVICE_UNHEALTHY.
  absl::StatusOr<Device> FindDevice(const std::string& id,
                                    const std::string& purpose = "")
      ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<Device> Devices() ABSL_LOCKS_EXCLUDED(mu_);  // by id

  absl::Status Reserve(const v1::ReserveRequest& request,
                       v1::ReserveResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Confirm(const v1::ConfirmRequest& request,
                       v1::ConfirmResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Renew(const v1::RenewRequest& request,
                     v1::RenewResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Release(const v1::ReleaseRequest& request,
                       v1::ReleaseResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status RegisterDevice(const v1::RegisterDeviceRequest& request,
                              v1::RegisterDeviceResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ListDevices(v1::ListDevicesResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ListLeases(const v1::ListLeasesRequest& request,
                          v1::ListLeasesResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Tells `listener` of the devices now and after every change, until it stops.
  // Errors: kResourceExhausted (kMaxListeners); kUnavailable once ended.
  absl::Status StartListening(std::shared_ptr<DeviceListener> listener)
      ABSL_LOCKS_EXCLUDED(mu_);
  void StopListening(const std::shared_ptr<DeviceListener>& listener)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends every listener's watch; later ones are refused.
  void EndWatches() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Listeners = std::set<std::shared_ptr<DeviceListener>>;

  // `name` is watched from here on, where that is possible.
  // Errors: kFailedPrecondition if the process has ended already.
  absl::Status Watch(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After a lease came to `process`: it may have ended before that.
  void BuryIfGone(const std::string& process, bool was_watched)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnProcessEnd(const std::string& process) ABSL_LOCKS_EXCLUDED(mu_);
  void OnTick() ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status Refusal(const absl::Status& status,
                       const v1::ReserveRequest& request, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<planner::Lease> Present(const v1::RenewRequest& request,
                                         int64_t epoch, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes over what the device itself says is free.
  absl::Status Read(const std::string& device_id, uint64_t free_bytes,
                    const std::string& vouching_lease, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::Lease Describe(const planner::Lease& lease, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::Device Describe(const planner::BookedDevice& device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::WatchDevicesResponse DescribeAll() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the listeners, if anything changed for them.
  void Announce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<absl::Time()> clock_;
  const std::unique_ptr<Journal> journal_ ABSL_PT_GUARDED_BY(mu_);
  absl::Mutex mu_;
  planner::LeaseBook book_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, planner::DeviceProfile> profiles_ ABSL_GUARDED_BY(mu_);
  Listeners listeners_ ABSL_GUARDED_BY(mu_);
  std::string announced_ ABSL_GUARDED_BY(mu_);  // serialised
  bool has_ended_watches_ ABSL_GUARDED_BY(mu_) = false;
  ProcessWatch watch_;  // last: its thread uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_LEDGER_H_
