// Who holds how many bytes of which device. A pure state machine: time comes in
// as an argument, and nothing is ever granted twice.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_BOOK_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_BOOK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/lease/lease.h"
#include "planner/lease/lease_journal.h"

namespace plimsoll::planner {

struct BookedDevice {
  std::string id;
  int64_t total_bytes = 0;
  int64_t headroom_bytes = 0;  // kept free by policy
  // What the device itself last said is free, so that memory taken by strangers
  // is respected. Absent = no reading.
  std::optional<int64_t> measured_free_bytes = std::nullopt;
};

// Not thread-safe: its owner (the planner service) holds one mutex around it.
//
// What frees bytes, and nothing else does:
// - Release, and ProcessDied;
// and, unless the lease's process is known to live (SetProcessLive) or was
// granted, confirmed or renewed a lease within the last time to live:
// - for a lease that had been confirmed and has expired, a reading of its
//   device by which less is used than the lease had allocated;
// - for a reservation, any reading later than the grace after its end: its
//   holder stopped allocating before that end, and what it still has is in the
//   reading. (One from a journal may have been confirmed since it was written;
//   only a reading by which nothing is used ends it.)
// Readings do not show memory that is swapped out. So a silent holder that
// nobody watches may be wronged; when it speaks again, it gets the lease back
// if its bytes are still free (Adopt).
class LeaseBook {
 public:
  // Limits; each has a test at it and one past it.
  static constexpr int64_t kMaxDevices = 4'096;  // see RegisterDevice
  static constexpr int64_t kMaxLeases = 65'536;  // live ones
  static constexpr int64_t kMaxRememberedRequests = 65'536;  // oldest leave
  static constexpr int64_t kMaxMarginsPerDevice = 1'024;
  // All shortfalls of a purpose keep at most this part of a device free.
  static constexpr int64_t kMarginDivisor = 4;
  static constexpr int64_t kMaxIdBytes = 256;
  static constexpr int64_t kMaxLiveProcesses = 4'096;
  // The epochs of all leases are below it.
  static constexpr int64_t kMaxEpoch = int64_t{1} << 62;
  // A lease is presented with an epoch at most this far above the first epoch
  // of this book (which is a clock's milliseconds, if the journal does not know
  // it): 139 years of that clock. So one that is presented cannot use up the
  // epochs, and one that was granted is taken in again.
  static constexpr int64_t kMaxEpochsAhead = int64_t{1} << 42;

  struct ReserveRequest {
    std::string request_id;  // repeating it returns the first reply
    std::string lease_id;
    std::string device_id;
    std::string holder;
    std::string purpose;
    int64_t bytes;
    std::string process = "";  // as Lease::process
  };

  // Epochs start at `first_epoch`, which must be above those of all leases that
  // may still be held. `journal`, if any, must outlive the book. `times` are as
  // CheckLeaseTimes allows.
  explicit LeaseBook(int64_t first_epoch = 1, LeaseJournal* journal = nullptr,
                     const LeaseTimes& times = LeaseTimes());
  LeaseBook(const LeaseBook&) = delete;  // it points into itself
  LeaseBook& operator=(const LeaseBook&) = delete;

  const LeaseTimes& times() const { return times_; }

  // For a book that starts with less than everything: grants nothing before
  // now + `length`, so that holders can present their leases (Adopt). See
  // StartOf for how long that must be.
  void Recover(absl::Time now, absl::Duration length);
  void Recover(absl::Time now) { Recover(now, times_.recovery); }
  // How long that still lasts; 0 = grants are possible.
  absl::Duration RecoveryLeft(absl::Time now) const;

  // For a new book: takes over what a journal held. Live leases are suspect,
  // with one whole time to live to be renewed in. Recovers if the image is
  // partial; a Recover afterwards decides anew. Takes every image that a book
  // wrote.
  // Errors: kDataLoss if a record makes no sense; the book is then unusable.
  absl::Status Restore(const LeaseImage& image, absl::Time now);

  // Registers or updates a device; its reading may free leases that expired
  // before the last call that had a time. `registrant` is the holder that asks,
  // or empty: one that holds nothing there makes an unhealthy device healthy.
  // At the limit of devices the one leaves that holds no lease and was not
  // heard of for longest (unhealthy ones last). Returns its id, else "".
  // Errors: kInvalidArgument (bytes <= 0, empty or oversized id),
  // kResourceExhausted (kMaxDevices, and leases are held on each). Shrinking a
  // device below what is granted is allowed; nothing more is granted until it
  // fits.
  absl::StatusOr<std::string> RegisterDevice(
      const BookedDevice& device, const std::string& registrant = "");

  // Forgets a device, but for whether it is healthy.
  // Errors: kNotFound; kFailedPrecondition while leases are held on it.
  absl::Status UnregisterDevice(const std::string& device_id);

  // What the device itself says is free. `vouching_lease`, if not empty, is a
  // confirmed lease whose memory was certainly allocated at that moment.
  // Errors: kNotFound (device), kInvalidArgument (negative).
  absl::Status ReadFree(const std::string& device_id, int64_t free_bytes,
                        const std::string& vouching_lease, absl::Time now);

  // The device failed under `holder`: nothing is granted on it until another
  // worker, which holds nothing there, registers it.
  // Errors: kNotFound.
  absl::Status MarkUnhealthy(const std::string& device_id,
                             const std::string& holder);

  // Grants `bytes` or refuses. The same request_id gets the same reply, even
  // after the lease ended, but for kUnavailable.
  // Errors: kNotFound (device), kInvalidArgument (bytes <= 0, ids),
  // kAlreadyExists (lease_id in use), kResourceExhausted with bytes wanted,
  // available and held; kFailedPrecondition if no epoch is left below
  // kMaxEpoch; kUnavailable while recovering, if the device is unhealthy or the
  // journal cannot be written.
  absl::StatusOr<Lease> Reserve(const ReserveRequest& request, absl::Time now);

  // The holder has allocated: measured_bytes <= granted bytes. Idempotent.
  // Errors: kNotFound; kFailedPrecondition if `epoch` is not the lease's or the
  // lease was released or is suspect without having been confirmed.
  absl::StatusOr<Lease> Confirm(const std::string& lease_id, int64_t epoch,
                                int64_t measured_bytes, absl::Time now);

  // Extends a lease to now + the time to live. A suspect confirmed lease is
  // adopted again with the same id and epoch. Errors: as Confirm.
  absl::StatusOr<Lease> Renew(const std::string& lease_id, int64_t epoch,
                              absl::Time now);

  // A holder presents a confirmed lease that this book may have forgotten; of
  // `claim` state and times do not count. One that is known is renewed, and
  // confirmed if need be: its bytes are still counted. Otherwise it is taken in
  // with its id and epoch: while recovering always (its bytes are in use,
  // whatever the device has), later if it fits. One that a reading ended is
  // taken in like one that was forgotten: who presents it lives.
  // Errors: kFailedPrecondition for another epoch, device, holder, process or
  // size than the known lease has, one that was released, or one that comes too
  // late; kNotFound (device), kInvalidArgument (a field, kMaxEpochsAhead),
  // kResourceExhausted (kMaxLeases); kUnavailable (journal).
  absl::StatusOr<Lease> Adopt(const Lease& claim, absl::Time now);

  // Frees the bytes. Idempotent. `shortfall_bytes` > 0: the load failed for
  // want of so many of the lease's bytes, and later grants for its purpose on
  // its device leave that much more free. They count with the call that ends
  // the lease, and up to the lease's bytes and to kMarginDivisor in all;
  // every confirmed load of the purpose takes an eighth of them back.
  // Errors: kNotFound; kFailedPrecondition for another epoch.
  absl::StatusOr<Lease> Release(const std::string& lease_id, int64_t epoch,
                                int64_t shortfall_bytes = 0);

  // Whether `process` is watched and known to live. While it is, no reading
  // frees its leases, present and future ones: it may have been stopped, or its
  // memory swapped out. When it is watched no longer (and not known to have
  // died), readings count again from now + grace on.
  // Errors: kInvalidArgument (empty or oversized name), kResourceExhausted
  // (kMaxLiveProcesses): then readings count as if nobody watched it.
  absl::Status SetProcessLive(const std::string& process, bool is_live,
                              absl::Time now);

  // Whether live leases name `process`.
  bool HoldsLeases(const std::string& process) const;

  // Proof of a process's death: frees every lease of `process`, which is not
  // empty. Returns how many bytes came free.
  int64_t ProcessDied(const std::string& process);

  // Marks leases whose time has passed as suspect. Called before every other
  // operation that has a time by itself; public for the others and for
  // listings. Frees nothing.
  void Expire(absl::Time now);

  // Bytes that a Reserve for `purpose` on `device_id` could get now (once the
  // book has recovered).
  // Errors: kNotFound.
  absl::StatusOr<int64_t> AvailableBytes(const std::string& device_id,
                                         const std::string& purpose = "") const;
  // Bytes of all live leases (reserved, confirmed, suspect) of a device.
  // Errors: kNotFound.
  absl::StatusOr<int64_t> HeldBytes(const std::string& device_id) const;
  bool IsRegistered(const std::string& device_id) const;
  // False for an unhealthy device and for one that is not registered.
  bool IsHealthy(const std::string& device_id) const;

  std::vector<BookedDevice> Devices() const;  // by id
  std::vector<Lease> Leases() const;          // live ones, by id

 private:
  struct Entry;
  struct Device {
    BookedDevice booked;
    bool is_registered = false;  // else only leases and health are known
    int64_t heard = 0;           // grows with every call that is about it
    int64_t held_bytes = 0;      // of all live leases
    int64_t unread_bytes = 0;    // of those that the reading does not show
    std::vector<Entry*> leases;  // the live ones
    std::optional<std::string> unhealthy_holder;  // who found it unhealthy
    std::map<std::string, int64_t> margins;       // bytes, by purpose
  };
  // Who has live leases, or is known to live.
  struct Process {
    bool is_live = false;  // is known to live
    int64_t n_leases = 0;  // live ones
    // Before it no reading frees what it holds: it gave a sign of life.
    absl::Time trusted_until = absl::InfinitePast();
  };
  struct Entry {
    Lease lease;
    Device* device = nullptr;
    Process* process = nullptr;  // null if the lease names none
    size_t index = 0;            // in device->leases
    // The device's last reading was taken when this lease was allocated, so
    // the reading's free bytes are without it already.
    bool in_reading = false;
    bool has_expired = false;    // since its last renewal
    bool is_provable = false;    // from now on a reading may prove it gone
    bool is_restored = false;    // from a journal, which may lag behind
    bool was_read_gone = false;  // a reading ended it, and not its holder
    // Its place in `deadlines_`; infinite past = none.
    absl::Time deadline = absl::InfinitePast();
  };
  // When leases expire or become provable, the next first.
  using Deadlines = std::set<std::pair<absl::Time, Entry*>>;

  const Device* FindDevice(const std::string& id) const;  // registered, or null
  Device* FindDevice(const std::string& id);
  int64_t Available(const Device& device, const std::string& purpose) const;
  // Whether the lease cannot be there if others use at most `used_bytes`.
  bool IsGone(const Entry& entry, int64_t used_bytes) const;
  // Makes room for one more device, where that is possible. Returns who left.
  std::string Evict();
  // See Release. Nothing happens at a limit: it is no reason to keep a lease.
  static void AddMargin(Device& device, const Lease& lease,
                        int64_t shortfall_bytes);
  static void ShrinkMargin(Device& device, const std::string& purpose);
  void TakeReading(Device& device, std::optional<int64_t> free_bytes,
                   int64_t vouched_bytes);

  static absl::Status CheckRequest(const ReserveRequest& request);
  static absl::Status CheckRecord(const LeaseRecord& record);
  absl::Status CheckRoomFor(const ReserveRequest& request,
                            const Device& device) const;
  absl::StatusOr<Lease> Grant(const ReserveRequest& request, absl::Time now);
  absl::StatusOr<Lease> TakeIn(const Lease& claim, absl::Time now);
  void Remember(const std::string& request_id, absl::StatusOr<Lease> reply);
  // Takes in a lease that counts from now on.
  Entry& Insert(Lease lease, Device& device);
  // The lease's process has just spoken.
  void Trust(Entry& entry, absl::Time now);
  // Forgets a process of which there is nothing to know.
  void Forget(const std::string& process);
  // The live lease, or why there is none.
  absl::StatusOr<Entry*> FindLive(const std::string& lease_id, int64_t epoch);
  // The same, or why it may not be confirmed or renewed.
  absl::StatusOr<Entry*> FindForHolder(const std::string& lease_id,
                                       int64_t epoch);
  int64_t MaxPresentedEpoch() const;
  void SetDeadline(Entry& entry, absl::Time deadline);
  void SetConfirmed(Entry& entry, int64_t measured_bytes, absl::Time now);
  // Extends to now + the time to live, never shortens, and ends suspicion.
  void Extend(Entry& entry, absl::Time now);
  // Frees. `is_read`: the device's reading shows the bytes free already.
  void Free(Entry& entry, bool is_read);
  void Bury(const Lease& lease);

  LeaseJournal* const journal_;
  const LeaseTimes times_;
  std::map<std::string, Device> devices_;
  std::map<std::string, Entry> leases_;  // live ones and lately released ones
  int64_t n_live_ = 0;
  Deadlines deadlines_;
  std::map<std::string, Process> processes_;  // by name
  int64_t n_live_processes_ = 0;
  absl::Time last_time_ = absl::InfinitePast();  // of the latest call with one
  int64_t n_heard_ = 0;
  // Released leases, oldest first, so that a late or repeated call is answered.
  std::deque<std::pair<std::string, int64_t>> released_order_;  // id, epoch
  std::map<std::string, absl::StatusOr<Lease>> replies_;        // by request_id
  std::deque<std::string> reply_order_;                         // oldest first
  int64_t next_epoch_;   // at most kMaxEpoch
  int64_t first_epoch_;  // where this book or its journal began
  absl::Time doors_open_ = absl::InfinitePast();
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_BOOK_H_
