// Who holds how many bytes of which device. A pure state machine: time comes in
// as an argument, and nothing is ever granted twice.
#ifndef PLIMSOLL_PLANNER_LEASE_BOOK_H_
#define PLIMSOLL_PLANNER_LEASE_BOOK_H_

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
#include "planner/lease.h"
#include "planner/lease_journal.h"

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
// - for a lease that had been confirmed and has expired, a reading of its
//   device by which less is used than the lease had allocated;
// - for a reservation, any reading later than kGrace after its end: its holder
//   stopped allocating before that end, and what it still has is in the
//   reading. (One from a journal may have been confirmed since it was written;
//   only a reading by which nothing is used ends it.)
class LeaseBook {
 public:
  // Limits; each has a test at it and one past it.
  static constexpr int64_t kMaxDevices = 4'096;
  static constexpr int64_t kMaxLeases = 65'536;              // live ones
  static constexpr int64_t kMaxRememberedRequests = 65'536;  // oldest leave
  static constexpr int64_t kMaxMarginsPerDevice = 1'024;
  static constexpr int64_t kMaxIdBytes = 256;
  static constexpr int64_t kMaxEpoch = int64_t{1} << 62;
  static constexpr absl::Duration kTtl = absl::Seconds(10);
  // From a reservation's end to the first reading that may end it: as long as
  // a message may be on its way.
  static constexpr absl::Duration kGrace = absl::Seconds(5);

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
  // may still be held. `journal`, if any, must outlive the book.
  explicit LeaseBook(int64_t first_epoch = 1, LeaseJournal* journal = nullptr)
      : journal_(journal), next_epoch_(first_epoch) {}
  LeaseBook(const LeaseBook&) = delete;  // it points into itself
  LeaseBook& operator=(const LeaseBook&) = delete;

  // For a book that starts with less than everything: grants nothing before
  // now + kTtl, so that holders can present their leases (Adopt).
  void Recover(absl::Time now);
  // How long that still lasts; 0 = grants are possible.
  absl::Duration RecoveryLeft(absl::Time now) const;

  // For a new book: takes over what a journal held. Live leases are suspect,
  // with one whole kTtl to be renewed in. Recovers if the image is partial.
  // Errors: kDataLoss if a record makes no sense; the book is then unusable.
  absl::Status Restore(const LeaseImage& image, absl::Time now);

  // Registers or updates a device; its reading may free leases that expired
  // before the last call that had a time. `registrant` is the holder that asks,
  // or empty: one that holds nothing there makes an unhealthy device healthy.
  // Errors: kInvalidArgument (bytes <= 0, empty or oversized id),
  // kResourceExhausted (kMaxDevices). Shrinking a device below what is granted
  // is allowed; nothing more is granted until it fits.
  absl::Status RegisterDevice(const BookedDevice& device,
                              const std::string& registrant = "");

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

  // A granted load of `purpose` failed for want of `bytes`: later grants for
  // this purpose on this device leave that much more.
  // Errors: kNotFound (device), kInvalidArgument (bytes <= 0, purpose),
  // kResourceExhausted (kMaxMarginsPerDevice).
  absl::Status RecordShortfall(const std::string& device_id,
                               const std::string& purpose, int64_t bytes);

  // Grants `bytes` or refuses. The same request_id gets the same reply, even
  // after the lease ended, but for kUnavailable.
  // Errors: kNotFound (device), kInvalidArgument (bytes <= 0, ids),
  // kAlreadyExists (lease_id in use), kResourceExhausted with bytes wanted,
  // available and held; kUnavailable while recovering, if the device is
  // unhealthy or the journal cannot be written.
  absl::StatusOr<Lease> Reserve(const ReserveRequest& request, absl::Time now);

  // The holder has allocated: measured_bytes <= granted bytes. Idempotent.
  // Errors: kNotFound; kFailedPrecondition if `epoch` is not the lease's or the
  // lease was released or is suspect without having been confirmed.
  absl::StatusOr<Lease> Confirm(const std::string& lease_id, int64_t epoch,
                                int64_t measured_bytes, absl::Time now);

  // Extends a lease to now + kTtl. A suspect confirmed lease is adopted again
  // with the same id and epoch. Errors: as Confirm.
  absl::StatusOr<Lease> Renew(const std::string& lease_id, int64_t epoch,
                              absl::Time now);

  // A holder presents a confirmed lease that this book may have forgotten; of
  // `claim` state and times do not count. One that is known is renewed, and
  // confirmed if need be: its bytes are still counted. Otherwise it is taken in
  // with its id and epoch: while recovering always (its bytes are in use,
  // whatever the device has), later if it fits.
  // Errors: kFailedPrecondition for another epoch, one that was released, or
  // one that comes too late; kNotFound (device), kInvalidArgument (a field),
  // kResourceExhausted (kMaxLeases); kUnavailable (journal).
  absl::StatusOr<Lease> Adopt(const Lease& claim, absl::Time now);

  // Frees the bytes. Idempotent. Errors: kNotFound; kFailedPrecondition for
  // another epoch.
  absl::StatusOr<Lease> Release(const std::string& lease_id, int64_t epoch);

  // Proof of a process's death: frees every lease of `process`. Returns how
  // many bytes came free.
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
  // False for an unhealthy device and for one that is not registered.
  bool IsHealthy(const std::string& device_id) const;

  std::vector<BookedDevice> Devices() const;  // by id
  std::vector<Lease> Leases() const;          // live ones, by id

 private:
  struct Entry;
  struct Device {
    BookedDevice booked;
    bool is_registered = false;  // else only its leases are known
    int64_t held_bytes = 0;      // of all live leases
    int64_t unread_bytes = 0;    // of those that the reading does not show
    std::vector<Entry*> leases;  // the live ones
    std::optional<std::string> unhealthy_holder;  // who found it unhealthy
    std::map<std::string, int64_t> margins;       // bytes, by purpose
  };
  struct Entry {
    Lease lease;
    Device* device = nullptr;
    size_t index = 0;  // in device->leases
    // The device's last reading was taken when this lease was allocated, so
    // the reading's free bytes are without it already.
    bool in_reading = false;
    bool has_expired = false;  // since its last renewal
    bool is_provable = false;  // from now on a reading may prove it gone
    bool is_restored = false;  // from a journal, which may lag behind
  };
  // When leases expire or become provable, the next first.
  using Deadlines = std::set<std::pair<absl::Time, Entry*>>;

  const Device* FindDevice(const std::string& id) const;  // registered, or null
  Device* FindDevice(const std::string& id);
  int64_t Available(const Device& device, const std::string& purpose) const;
  // Whether the lease cannot be there if others use at most `used_bytes`.
  static bool IsGone(const Entry& entry, int64_t used_bytes);
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
  // The live lease, or why there is none.
  absl::StatusOr<Entry*> FindLive(const std::string& lease_id, int64_t epoch);
  // The same, or why it may not be confirmed or renewed.
  absl::StatusOr<Entry*> FindForHolder(const std::string& lease_id,
                                       int64_t epoch);
  void SetConfirmed(Entry& entry, int64_t measured_bytes, absl::Time now);
  // Extends to now + kTtl, never shortens, and ends suspicion.
  void Extend(Entry& entry, absl::Time now);
  // Frees. `is_read`: the device's reading shows the bytes free already.
  void Free(Entry& entry, bool is_read);
  void Bury(const Lease& lease);

  LeaseJournal* const journal_;
  std::map<std::string, Device> devices_;
  std::map<std::string, Entry> leases_;  // live ones and lately released ones
  int64_t n_live_ = 0;
  Deadlines deadlines_;
  // Released leases, oldest first, so that a late or repeated call is answered.
  std::deque<std::pair<std::string, int64_t>> released_order_;  // id, epoch
  std::map<std::string, absl::StatusOr<Lease>> replies_;        // by request_id
  std::deque<std::string> reply_order_;                         // oldest first
  int64_t next_epoch_;
  absl::Time doors_open_ = absl::InfinitePast();
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_BOOK_H_
