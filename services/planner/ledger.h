// The ledger has the lease book, its journal and the registered devices behind
// one mutex. It knows the leases of every device.
#ifndef PLIMSOLL_SERVICES_PLANNER_LEDGER_H_
#define PLIMSOLL_SERVICES_PLANNER_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/layout/device_profile.h"
#include "planner/lease/lease_book.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/planner/device_bytes.h"
#include "services/planner/device_feed.h"
#include "services/planner/device_sizes.h"
#include "services/planner/journal.h"
#include "services/planner/lease_holder.h"
#include "services/planner/ledger_observer.h"
#include "services/planner/process_watch.h"

namespace plimsoll::services {

struct LedgerOptions {
  std::function<absl::Time()> clock;           // must never go back
  std::unique_ptr<Journal> journal = nullptr;  // null if there is none
  // True if no earlier planner has granted a lease that may still be held. A
  // ledger without its whole journal then need not recover.
  bool is_first = true;
  // An epoch above those of all earlier planners. A whole journal has its own.
  int64_t first_epoch = 1;
  planner::LeaseTimes times = {};
  bool requires_secrets = false;       // every reservation needs a secret
  DeviceBytes headrooms = {};          // bytes that are never granted
  DeviceBytes sizes = {};              // upper limits of device sizes
  LedgerObserver* observer = nullptr;  // it outlives the ledger
  // Called with the ledger's lock held, once another planner has taken the
  // journal over. It may be null.
  std::function<void()> on_taken_over = nullptr;
};

// Thread-safe. Every method that takes a request answers one call of
// PlannerService; planner.proto says what each does, and errors carry their
// ErrorDetails.
class Ledger {
 public:
  // This many devices are described at a time under the mutex.
  static constexpr size_t kDeviceBatch = 128;
  // The most bytes of a ForceRelease's reason.
  static constexpr size_t kMaxReasonBytes = 256;

  // A registered device, and the bytes that a Reserve could get of it now.
  struct Device {
    planner::DeviceProfile profile;
    int64_t available_bytes;
  };

  explicit Ledger(LedgerOptions options);
  explicit Ledger(std::function<absl::Time()> clock)
      : Ledger(LedgerOptions{.clock = std::move(clock)}) {}

  // Returns the device as a Reserve for `purpose` would find it.
  // Errors: kNotFound with DEVICE_NOT_FOUND; kUnavailable with
  // DEVICE_UNHEALTHY.
  absl::StatusOr<Device> FindDevice(const std::string& id,
                                    const std::string& purpose = "")
      ABSL_LOCKS_EXCLUDED(mu_);

  // `owner` is the caller's Identity::lease_owner. If it is not empty, it is
  // put, with a space, before the holders that the owner's calls name.
  // Calls about a lease also return kPermissionDenied if the lease belongs to
  // another owner, or has another secret than the call.
  absl::Status Reserve(const v1::ReserveRequest& request,
                       v1::ReserveResponse& response,
                       const std::string& owner = "") ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Confirm(const v1::ConfirmRequest& request,
                       v1::ConfirmResponse& response,
                       const std::string& owner = "") ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Renew(const v1::RenewRequest& request,
                     v1::RenewResponse& response, const std::string& owner = "")
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Release(const v1::ReleaseRequest& request,
                       v1::ReleaseResponse& response,
                       const std::string& owner = "") ABSL_LOCKS_EXCLUDED(mu_);
  // `caller` names the calling administrator for the log.
  absl::Status ForceRelease(const v1::ForceReleaseRequest& request,
                            v1::ForceReleaseResponse& response,
                            const std::string& caller) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status RegisterDevice(const v1::RegisterDeviceRequest& request,
                              v1::RegisterDeviceResponse& response,
                              const std::string& owner = "")
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ListDevices(v1::ListDevicesResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ListLeases(const v1::ListLeasesRequest& request,
                          v1::ListLeasesResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Changes how much of each device is kept free, and the largest size of each
  // device, now and for later registrations.
  void SetPolicies(DeviceBytes headrooms, DeviceBytes sizes)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Expires the leases that are due, and tries failed writes again. The ledger
  // calls it by itself about every ProcessWatch::kTick.
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the feed that tells watchers about the devices.
  DeviceFeed& feed() { return feed_; }

 private:
  struct Registered {
    planner::DeviceProfile profile;  // with the size in effect
    DeviceSizes sizes;
    int64_t said_bytes = 0;  // its size by its last registration
    // The headroom that the registering worker asked for.
    int64_t asked_headroom_bytes = 0;
    int64_t headroom_bytes = 0;                        // the headroom in effect
    std::shared_ptr<const v1::DeviceProfile> message;  // it lacks free_bytes
  };
  using Ids = std::set<std::string>;
  using States = std::map<std::string, DeviceState>;

  // Reserves without telling the observer, which the caller does.
  absl::Status Grant(const v1::ReserveRequest& request,
                     v1::ReserveResponse& response, const std::string& owner)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Errors: those of CheckHolder, if there is such a lease.
  absl::Status CheckHolder(const std::string& lease_id,
                           const HolderProof& proof) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Watches the process `name` from now on, if that is possible, and tells the
  // book that it lives. Errors: kFailedPrecondition if the process has ended.
  absl::Status Watch(const std::string& name, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Stops watching `process` if it holds nothing, because only a limited number
  // of processes can be watched.
  void ForgetIdle(const std::string& process, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Frees what `process` holds if it has ended. It may have ended before it got
  // a lease; the book was not told then.
  void DropIfProcessDied(const std::string& process, bool was_watched)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnProcessEnd(const std::string& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Errors: kUnavailable if another planner has the journal. This planner then
  // renews no lease, so that every holder finds the new planner before its
  // lease's time to live is over.
  absl::Status CheckJournal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Status Refusal(const absl::Status& status,
                       const v1::ReserveRequest& request, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<planner::Lease> Present(const v1::RenewRequest& request,
                                         int64_t epoch,
                                         const std::string& owner,
                                         absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Records the free bytes that the device itself reports.
  absl::Status Read(const std::string& device_id, uint64_t free_bytes,
                    const std::string& vouching_lease, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::Lease Describe(const planner::Lease& lease, absl::Time now) const;
  // Returns the leases that `request` asks for, and maybe more. `process` is
  // the name of its process, if it has one.
  std::vector<planner::Lease> LeasesFor(const v1::ListLeasesRequest& request,
                                        const std::string& process) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The most bytes of a device that may be granted, even if its registrant
  // reports more.
  int64_t LimitOf(const std::string& id, const DeviceSizes& sizes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Records the size that `holder` reports, and drops sizes whose holders are
  // gone. Returns the new limit.
  int64_t TakeSize(const planner::DeviceProfile& said,
                   const std::string& holder, DeviceSizes& sizes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes a new message of the device for watchers if its profile has changed.
  static void Publish(Registered& device);
  // The device must be registered.
  DeviceState StateOf(const std::string& id, const Registered& device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the states of the devices with these ids, or of all. Other calls
  // may use the ledger in between.
  States StatesOf(const std::optional<Ids>& ids) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns up to kDeviceBatch ids from `first` on, in order.
  std::vector<std::string> IdsFrom(const std::string& first)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Restores the leases of a journal and watches their holders.
  // Errors: those of LeaseBook::Restore.
  absl::Status TakeOver(const planner::LeaseImage& image, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Marks the journal as whole once no lease has to be presented any more.
  void MarkWholeIfRecovered(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writes everything that waits to be written, before a call is answered.
  // Failed writes are tried again later.
  void FlushJournal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<absl::Time()> clock_;
  const std::unique_ptr<Journal> journal_ ABSL_PT_GUARDED_BY(mu_);
  const planner::LeaseTimes times_;
  const bool requires_secrets_;
  LedgerObserver* const observer_;
  const std::function<void()> on_taken_over_;
  absl::Mutex mu_;
  DeviceBytes headrooms_ ABSL_GUARDED_BY(mu_);
  DeviceBytes size_limits_ ABSL_GUARDED_BY(mu_);
  planner::LeaseBook book_ ABSL_GUARDED_BY(mu_);
  const int64_t first_epoch_;
  // True while the journal must still be marked as whole.
  bool is_partial_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Registered> devices_ ABSL_GUARDED_BY(mu_);
  DeviceFeed feed_;     // its thread uses all fields above
  ProcessWatch watch_;  // last: its thread uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_LEDGER_H_
