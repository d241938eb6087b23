// The lease book knows who holds how many bytes of which device, and grants
// nothing twice. It is a pure state machine: time comes in as an argument.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_BOOK_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_BOOK_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
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
  // The device's size; readings of free bytes refer to it.
  int64_t total_bytes = 0;
  int64_t headroom_bytes = 0;  // bytes that a policy keeps free
  // The free bytes that the device last reported. They take account of memory
  // that other programs use. Absent without a reading.
  std::optional<int64_t> measured_free_bytes = std::nullopt;
  // Memory of the device may be swapped out, which no reading shows.
  bool may_swap = true;
  // At most this many bytes are granted, even if total_bytes is larger.
  int64_t limit_bytes = std::numeric_limits<int64_t>::max();

  // The bytes for all grants and the headroom together.
  int64_t size_bytes() const { return std::min(total_bytes, limit_bytes); }
};

// Not thread-safe: its owner (the planner service) holds one mutex around it.
// Methods that change the book do not throw. If memory runs out during a
// change, the process ends, because half a change would leave the book wrong.
// The journal has every grant.
//
// Only these events free the bytes of a lease:
// - Release, ForceRelease and ProcessDied.
// - For a confirmed lease that has expired: a reading of its device by which
//   less memory is used than the lease had allocated. Memory of other leases is
//   not counted as used if it was certainly allocated when the reading was
//   taken. This is certain for the lease whose holder took the reading. If the
//   device may not swap, it is also certain for each lease that was confirmed
//   at least `grace` before the reading came and vouched for (ReadFree) at
//   least `grace` after it. A message is on its way for `grace` at most, so
//   these two messages were sent before and after the reading.
// - For a reservation: any reading that comes at least `grace` after its end.
//   Its holder stopped allocating before that end, so the reading shows the
//   memory that the holder still has. A reservation from a journal may have
//   been confirmed since the journal was written; only a reading by which
//   nothing is used ends it.
// A reading frees no lease whose process is known to live (SetProcessLive), or
// was granted, confirmed or renewed a lease within the last time to live.
//
// Readings do not show memory that is swapped out. So a silent holder that
// nobody watches may lose a lease whose memory it still uses. When it presents
// the lease again (Adopt), it gets it back if the bytes are still free.
class LeaseBook {
 public:
  // Each limit has a test at it and one past it.
  static constexpr int64_t kMaxDevices = 16'384;  // see RegisterDevice
  static constexpr int64_t kMaxLeases = 131'072;  // counts live leases only
  // The book forgets the oldest first.
  static constexpr int64_t kMaxRememberedRequests = 131'072;
  static constexpr int64_t kMaxMarginsPerDevice = 1'024;
  // All shortfalls of a purpose keep at most this part of a device free.
  static constexpr int64_t kMarginDivisor = 4;
  static constexpr int64_t kMaxIdBytes = 256;
  static constexpr int64_t kMaxLiveProcesses = 4'096;
  // The epochs of all leases are below it.
  static constexpr int64_t kMaxEpoch = int64_t{1} << 62;
  // A lease is presented with an epoch at most this far above the first epoch
  // of this book (which is a clock's milliseconds, if the journal does not know
  // it): 139 years of that clock. So a presented lease cannot use up the
  // epochs, and every lease that was really granted is accepted again.
  static constexpr int64_t kMaxEpochsAhead = int64_t{1} << 42;

  struct ReserveRequest {
    // A second request with this id gets the first reply.
    std::string request_id;
    std::string lease_id;
    std::string device_id;
    std::string holder;
    std::string purpose;
    int64_t bytes;
    std::string process = "";  // as Lease::process
    std::string secret_hash = "";
  };

  // Epochs start at `first_epoch`, which must be above the epochs of all leases
  // that may still be held. `journal`, if any, must outlive the book. `times`
  // are as CheckLeaseTimes allows.
  explicit LeaseBook(int64_t first_epoch = 1, LeaseJournal* journal = nullptr,
                     const LeaseTimes& times = LeaseTimes());
  LeaseBook(const LeaseBook&) = delete;  // it points into itself
  LeaseBook& operator=(const LeaseBook&) = delete;

  const LeaseTimes& times() const { return times_; }

  // A book that may not know all leases grants nothing before now + `length`,
  // so that holders can present their leases (Adopt). StartOf computes the
  // necessary length.
  void Recover(absl::Time now, absl::Duration length) {
    grants_resume_at_ = now + length;
  }
  void Recover(absl::Time now) { Recover(now, times_.recovery); }
  // Returns how long the recovery still lasts; grants are possible at 0.
  absl::Duration RecoveryLeft(absl::Time now) const;

  // Gives a new book the leases of a journal. Live leases become suspect, and
  // their holders have one whole time to live to renew them. The book recovers
  // if the image is partial; a later call of Recover replaces that recovery.
  // Restore accepts every image that a book wrote.
  // Errors: kDataLoss if a record makes no sense; the book is then unusable.
  absl::Status Restore(const LeaseImage& image, absl::Time now);

  // Registers or updates a device. The device's reading may free leases that
  // had expired at the latest time that the book knows. `registrant` names the
  // holder that registers the device, and may be empty. An unhealthy device
  // becomes healthy if the registrant has no lease on it and the device did not
  // fail under the registrant. At the limit of devices, the device without
  // leases that was mentioned least recently is removed (unhealthy devices
  // last). Returns the id of the removed device, or "" if none was removed.
  // Errors: kInvalidArgument (bytes <= 0, empty or oversized id),
  // kResourceExhausted (kMaxDevices, and each device has leases). Shrinking a
  // device below what is granted is allowed; nothing more is granted until it
  // fits.
  absl::StatusOr<std::string> RegisterDevice(
      const BookedDevice& device, const std::string& registrant = "") noexcept;

  // Changes how many bytes of a device policies keep free, and how many they
  // grant at most. If more bytes are granted already, nothing more is granted
  // until the leases fit.
  // Errors: kNotFound; kInvalidArgument (negative).
  absl::Status SetPolicies(const std::string& device_id, int64_t headroom_bytes,
                           int64_t limit_bytes) noexcept;

  // Forgets a device; the book still remembers that a device is unhealthy.
  // Errors: kNotFound; kFailedPrecondition while leases are held on it.
  absl::Status UnregisterDevice(const std::string& device_id) noexcept;

  // The device itself reports its free bytes. `vouching_lease`, if not empty,
  // is a confirmed lease whose memory was certainly allocated at that moment.
  // Errors: kNotFound (device), kInvalidArgument (negative).
  absl::Status ReadFree(const std::string& device_id, int64_t free_bytes,
                        const std::string& vouching_lease,
                        absl::Time now) noexcept;

  // The device failed under `holder`: nothing is granted on it until another
  // worker, which holds nothing there, registers it.
  // Errors: kNotFound.
  absl::Status MarkUnhealthy(const std::string& device_id,
                             const std::string& holder) noexcept;

  // Grants `bytes` or refuses. A request_id that comes again gets the same
  // reply, even after the lease ended, but for kUnavailable.
  // Errors: kNotFound (device), kInvalidArgument (bytes <= 0, ids),
  // kAlreadyExists (lease_id in use), kResourceExhausted with bytes wanted,
  // available and held; kFailedPrecondition if no epoch is left below
  // kMaxEpoch; kUnavailable while recovering, if the device is unhealthy or the
  // journal cannot be written.
  absl::StatusOr<Lease> Reserve(const ReserveRequest& request,
                                absl::Time now) noexcept;

  // The holder has allocated measured_bytes, at most the granted bytes. It may
  // confirm a lease repeatedly.
  // Errors: kNotFound; kFailedPrecondition if `epoch` is not the lease's or the
  // lease was released or is suspect without having been confirmed.
  absl::StatusOr<Lease> Confirm(const std::string& lease_id, int64_t epoch,
                                int64_t measured_bytes,
                                absl::Time now) noexcept;

  // Extends a lease to now + the time to live. A suspect confirmed lease is
  // adopted again with the same id and epoch. Errors: as Confirm.
  absl::StatusOr<Lease> Renew(const std::string& lease_id, int64_t epoch,
                              absl::Time now) noexcept;

  // A holder presents a confirmed lease that this book may have forgotten. The
  // state and the times of `claim` are ignored. A lease that the book knows is
  // renewed, and confirmed if necessary; its bytes are still counted. An
  // unknown lease is accepted with its id and epoch: always while the book
  // recovers (its bytes are in use, even if the device has too few), later only
  // if it fits. A lease that a reading ended is accepted like a forgotten one,
  // because its holder is alive.
  // Errors: kFailedPrecondition for another epoch, device, holder, process or
  // size than the known lease has, for a released lease, or for a claim that
  // comes too late; kNotFound (device), kInvalidArgument (a field,
  // kMaxEpochsAhead), kResourceExhausted (kMaxLeases); kUnavailable (journal).
  absl::StatusOr<Lease> Adopt(const Lease& claim, absl::Time now) noexcept;

  // Frees the bytes; a repeated call changes nothing. If `shortfall_bytes` is
  // positive, the load failed because it could not get that many of the lease's
  // bytes. Later grants for the lease's purpose on its device leave that many
  // more bytes free. Only the call that ends the lease adds its shortfall, up
  // to the lease's bytes; kMarginDivisor limits the sum. Every confirmed load
  // of the purpose reduces the sum by an eighth.
  // Errors: kNotFound; kFailedPrecondition for another epoch.
  absl::StatusOr<Lease> Release(const std::string& lease_id, int64_t epoch,
                                int64_t shortfall_bytes = 0) noexcept;

  // Frees a lease because somebody says that its holder has ended. A holder
  // that is still alive gets the lease back as after a reading (Adopt).
  // Errors: kNotFound, also if the lease was released; kFailedPrecondition if
  // it was renewed within its time to live, or if its process is known to live
  // or gave a sign of life within that time.
  absl::StatusOr<Lease> ForceRelease(const std::string& lease_id,
                                     absl::Time now) noexcept;

  // Says whether `process` is watched and known to live. While it is live, no
  // reading frees its present or future leases: the process may have been
  // stopped, or its memory swapped out. When the process is no longer watched
  // (and not known to have died), readings count again from now + grace on.
  // Errors: kInvalidArgument (empty or oversized name), kResourceExhausted
  // (kMaxLiveProcesses): then readings count as if nobody watched it.
  absl::Status SetProcessLive(const std::string& process, bool is_live,
                              absl::Time now) noexcept;

  // Returns whether live leases name `process`.
  bool HoldsLeases(const std::string& process) const;

  // A process is proven dead: this frees every lease of `process`, which is not
  // empty. Returns how many bytes came free.
  int64_t ProcessDied(const std::string& process) noexcept;

  // Marks leases whose time has passed as suspect, and frees nothing. Every
  // other operation with the argument `now` calls it first. It is public for
  // operations without a time, and for listings.
  void Expire(absl::Time now) noexcept;

  // Returns how many bytes a Reserve for `purpose` on `device_id` could get now
  // (once the book has recovered).
  // Errors: kNotFound.
  absl::StatusOr<int64_t> AvailableBytes(const std::string& device_id,
                                         const std::string& purpose = "") const;
  // Returns the bytes of all live leases (reserved, confirmed, suspect) of a
  // device.
  // Errors: kNotFound.
  absl::StatusOr<int64_t> HeldBytes(const std::string& device_id) const;
  bool IsRegistered(const std::string& device_id) const {
    return FindDevice(device_id) != nullptr;
  }
  // It is false for an unhealthy device and for one that is not registered.
  bool IsHealthy(const std::string& device_id) const;

  // Returns a lease that lives or was released lately, else null. It is good
  // until the book changes.
  const Lease* Find(const std::string& lease_id) const {
    const auto found = leases_.find(lease_id);
    return found == leases_.end() ? nullptr : &found->second.lease;
  }

  std::vector<BookedDevice> Devices() const;  // in order of their ids
  std::vector<Lease> Leases() const;  // all live leases, in order of their ids
  // Returns the live leases of one device, or of the process of this name,
  // which is not empty. They are in order of their ids.
  std::vector<Lease> LeasesOn(const std::string& device_id) const;
  std::vector<Lease> LeasesOf(const std::string& process) const;

 private:
  struct Entry;
  // A reading that waits until holders have reported what they had allocated
  // when it was taken.
  struct OldReading {
    absl::Time came;
    int64_t used_bytes;
  };
  struct Device {
    BookedDevice booked;
    bool is_registered = false;  // false: only its leases and health are known
    int64_t heard = 0;       // the number of the last call about this device
    int64_t held_bytes = 0;  // bytes of all live leases
    // Part of held_bytes that the reading does not show.
    int64_t unread_bytes = 0;
    std::vector<Entry*> leases;  // they are live
    std::optional<OldReading> old_reading;
    std::optional<std::string> unhealthy_holder;  // the device failed under it
    std::map<std::string, int64_t> margins;       // bytes to leave, by purpose
  };
  // Orders entries by the ids of their leases.
  struct ById {
    bool operator()(const Entry* a, const Entry* b) const;
  };
  // A process has live leases, or is known to live.
  struct Process {
    bool is_live = false;           // it is known to live
    std::set<Entry*, ById> leases;  // they are live
    // Until this time no reading frees leases of the process, because it called
    // recently.
    absl::Time trusted_until = absl::InfinitePast();
  };
  struct Entry {
    Lease lease;
    Device* device = nullptr;
    Process* process = nullptr;  // null if the lease names none
    size_t index = 0;            // the entry's place in device->leases
    // The device's last reading was taken after this lease was allocated, so
    // the reading's free bytes no longer include the lease.
    bool in_reading = false;
    bool has_expired = false;    // the lease has, since its last renewal
    bool is_provable = false;    // a reading may now prove the lease gone
    bool is_restored = false;    // from a journal, which may lag behind
    bool was_read_gone = false;  // a reading, or force, ended the lease
    // `allocated_at` is the time by which all memory of the lease was
    // allocated. `vouched_at` is the last time at which its holder confirmed
    // that (ReadFree).
    absl::Time allocated_at = absl::InfiniteFuture();
    absl::Time vouched_at = absl::InfinitePast();
    // The key of this entry in `deadlines_`. The infinite past means that it is
    // not listed.
    absl::Time deadline = absl::InfinitePast();
  };
  // Leases expire or become provable at these times; the next comes first.
  using Deadlines = std::set<std::pair<absl::Time, Entry*>>;

  // Returns the leases of these entries, in order of their ids.
  static std::vector<Lease> InOrder(std::vector<Entry*> entries);
  // Returns the registered device, or null.
  const Device* FindDevice(const std::string& id) const;
  Device* FindDevice(const std::string& id);
  int64_t Available(const Device& device, const std::string& purpose) const;
  // Returns whether the lease's process lives, or called recently.
  bool IsTrusted(const Entry& entry) const;
  // Returns whether the lease's memory must be free if at most `used_bytes` of
  // the device are used.
  bool IsGone(const Entry& entry, int64_t used_bytes) const;
  // Removes a device to make room for another one, if one can be removed.
  // Returns the id of the removed device, or "".
  std::string Evict();
  // Adds a shortfall of Release to the margin of the lease's purpose. At a
  // limit nothing is added; the lease is released all the same.
  static void AddMargin(Device& device, const Lease& lease,
                        int64_t shortfall_bytes);
  static void ShrinkMargin(Device& device, const std::string& purpose);
  void TakeReading(Device& device, std::optional<int64_t> free_bytes,
                   int64_t vouched_bytes);
  // Frees the leases that the old reading proves gone, together with the later
  // reports of holders. Replaces it by the newest reading when every live
  // holder has had time to report.
  void JudgeOldReading(Device& device, absl::Time now);
  void FreeRead(const std::vector<Entry*>& gone);

  absl::Status CheckRoomFor(const ReserveRequest& request,
                            const Device& device) const;
  absl::StatusOr<Lease> Grant(const ReserveRequest& request, absl::Time now);
  absl::StatusOr<Lease> TakeIn(const Lease& claim, absl::Time now);
  void Remember(const std::string& request_id, absl::StatusOr<Lease> reply);
  // Adds a lease, which counts from now on.
  Entry& Insert(Lease lease, Device& device);
  // Notes that the lease's process has just called.
  void Trust(Entry& entry, absl::Time now);
  // Forgets a process that has no leases and is not known to live.
  void Forget(const std::string& process);
  // Returns the live lease, or why there is none.
  absl::StatusOr<Entry*> FindLive(const std::string& lease_id, int64_t epoch);
  // Returns the live lease, or why it may not be confirmed or renewed.
  absl::StatusOr<Entry*> FindForHolder(const std::string& lease_id,
                                       int64_t epoch);
  int64_t MaxPresentedEpoch() const;
  void SetDeadline(Entry& entry, absl::Time deadline);
  void SetConfirmed(Entry& entry, int64_t measured_bytes, absl::Time now);
  // Extends to now + the time to live, never shortens, and ends suspicion.
  void Extend(Entry& entry, absl::Time now);
  // What the device's last reading shows of a lease's bytes.
  enum class LastReading { kShowsTaken, kShowsFree };
  void Free(Entry& entry, LastReading last);
  void Bury(const Lease& lease);

  LeaseJournal* const journal_;
  const LeaseTimes times_;
  std::map<std::string, Device> devices_;
  std::map<std::string, Entry> leases_;  // live or recently released
  int64_t n_live_ = 0;
  Deadlines deadlines_;
  std::map<std::string, Process> processes_;  // the keys are their names
  int64_t n_live_processes_ = 0;
  // The latest time that a call had.
  absl::Time last_time_ = absl::InfinitePast();
  int64_t n_heard_ = 0;
  // Released leases are kept, by id and epoch and the oldest first, so that a
  // late or repeated call is answered.
  std::deque<std::pair<std::string, int64_t>> released_order_;
  // The keys are request ids; the order has the oldest first.
  std::map<std::string, absl::StatusOr<Lease>> replies_;
  std::deque<std::string> reply_order_;
  int64_t next_epoch_;   // at most kMaxEpoch
  int64_t first_epoch_;  // the first epoch of this book or its journal
  absl::Time grants_resume_at_ = absl::InfinitePast();
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_BOOK_H_
