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

namespace plimsoll::planner {

// Life of a lease. Expiry alone frees nothing: the bytes of an expired lease
// are SUSPECT and still count as used until they are released or proven free.
enum class LeaseState { kReserved, kConfirmed, kSuspect, kReleased };
const char* LeaseStateName(LeaseState state);

struct Lease {
  std::string id;  // opaque, chosen by the caller of Reserve
  std::string device_id;
  std::string holder;      // who asked
  std::string purpose;     // model name, for people
  int64_t bytes;           // granted
  int64_t measured_bytes;  // reported by Confirm; 0 before
  int64_t epoch;           // grows with every grant of this book
  LeaseState state;
  bool was_confirmed;  // distinguishes suspect reservations from suspect loads
  absl::Time expires;
};

struct BookedDevice {
  std::string id;
  int64_t total_bytes;
  int64_t headroom_bytes;  // kept free by policy
  // What the device itself last said is free, and our leases' bytes at that
  // moment that were already allocated (confirmed), so that memory taken by
  // strangers is respected. Absent = no reading.
  std::optional<int64_t> measured_free_bytes;
};

// Not thread-safe: its owner (the planner service) holds one mutex around it.
class LeaseBook {
 public:
  // Limits; each has a test at it and one past it.
  static constexpr int64_t kMaxDevices = 4'096;
  static constexpr int64_t kMaxLeases = 65'536;              // live ones
  static constexpr int64_t kMaxRememberedRequests = 65'536;  // oldest leave
  static constexpr int64_t kMaxIdBytes = 256;
  static constexpr absl::Duration kTtl = absl::Seconds(10);

  struct ReserveRequest {
    std::string request_id;  // repeating it returns the first reply
    std::string lease_id;
    std::string device_id;
    std::string holder;
    std::string purpose;
    int64_t bytes;
  };

  // Registers or updates a device. Errors: kInvalidArgument (bytes <= 0, empty
  // or oversized id), kResourceExhausted (kMaxDevices). Shrinking a device
  // below what is granted is allowed; nothing more is granted until it fits.
  absl::Status RegisterDevice(const BookedDevice& device);

  // Grants `bytes` or refuses. The same request_id gets the same reply, even
  // after the lease ended.
  // Errors: kNotFound (device), kInvalidArgument (bytes <= 0, ids),
  // kAlreadyExists (lease_id in use), kResourceExhausted with bytes wanted,
  // available and held.
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

  // Frees the bytes. Idempotent. Errors: kNotFound; kFailedPrecondition for
  // another epoch.
  absl::StatusOr<Lease> Release(const std::string& lease_id, int64_t epoch);

  // Proof of the holder's death (the process was seen to end): frees every
  // lease of `holder`. Returns how many bytes came free.
  int64_t HolderDied(const std::string& holder);

  // Marks leases whose time has passed as suspect. Called before every other
  // operation by itself; public for listings. Frees nothing.
  void Expire(absl::Time now);

  // Bytes that a Reserve on `device_id` could get now.
  // Errors: kNotFound.
  absl::StatusOr<int64_t> AvailableBytes(const std::string& device_id) const;
  // Bytes of all live leases (reserved, confirmed, suspect) of a device.
  absl::StatusOr<int64_t> HeldBytes(const std::string& device_id) const;

  std::vector<BookedDevice> Devices() const;  // by id
  std::vector<Lease> Leases() const;          // live ones, by id

 private:
  struct Device {
    BookedDevice booked;
    int64_t held_bytes = 0;        // of all live leases
    int64_t unread_bytes = 0;      // of those that the reading does not show
    std::set<std::string> leases;  // ids of the live ones
  };
  struct Entry {
    Lease lease;
    // The device's last reading was taken when this lease was allocated, so
    // the reading's free bytes are without it already.
    bool in_reading = false;
  };

  absl::Status CheckRequest(const ReserveRequest& request) const;
  absl::StatusOr<Lease> Grant(const ReserveRequest& request, absl::Time now);
  void Remember(const std::string& request_id,
                const absl::StatusOr<Lease>& reply);
  int64_t Available(const Device& device) const;
  // The live lease, or why it may not be confirmed or renewed.
  absl::StatusOr<Entry*> FindForHolder(const std::string& lease_id,
                                       int64_t epoch);
  // Extends to now + kTtl, never shortens, and ends suspicion.
  void Extend(Lease& lease, absl::Time now);
  void Free(Entry& entry);

  std::map<std::string, Device> devices_;
  std::map<std::string, Entry> leases_;  // live ones and lately released ones
  int64_t n_live_ = 0;
  // When the live leases that are not suspect expire, and their ids.
  std::set<std::pair<absl::Time, std::string>> deadlines_;
  // Released leases, oldest first, so that a late or repeated call is answered.
  std::deque<std::pair<std::string, int64_t>> released_order_;  // id, epoch
  std::map<std::string, absl::StatusOr<Lease>> replies_;        // by request_id
  std::deque<std::string> reply_order_;                         // oldest first
  int64_t next_epoch_ = 1;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_BOOK_H_
