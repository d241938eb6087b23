// A lease says which bytes of a device somebody holds, and for how long.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace plimsoll::planner {

// These times are agreed between a planner and the holders of its leases.
struct LeaseTimes {
  static constexpr absl::Duration kDefaultTtl = absl::Seconds(10);
  static constexpr absl::Duration kDefaultGrace = absl::Seconds(5);
  static constexpr absl::Duration kMinTtl = absl::Milliseconds(500);
  static constexpr absl::Duration kMinGrace = absl::Milliseconds(100);
  static constexpr absl::Duration kMaxTime = absl::Hours(1);  // bounds each

  // The time for which a lease lives without a renewal.
  absl::Duration ttl = kDefaultTtl;
  // A reading proves that a reservation is gone only if it comes at least this
  // long after the reservation's end. A message may be on its way for that
  // time.
  absl::Duration grace = kDefaultGrace;
  // The time for which a planner that may have forgotten leases grants nothing.
  // It is not less than `ttl`, so that every reservation of an earlier planner
  // has ended by then.
  absl::Duration recovery = kDefaultTtl;
};

// Errors: kInvalidArgument with the bound that is broken.
absl::Status CheckLeaseTimes(const LeaseTimes& times);

// These are the states of a lease's life. Expiry alone frees nothing: an
// expired lease is SUSPECT, and its bytes count as used until they are released
// or proven free.
enum class LeaseState { kReserved, kConfirmed, kSuspect, kReleased };
const char* LeaseStateName(LeaseState state);

struct Lease {
  std::string id = {};  // the caller of Reserve chose it
  std::string device_id = {};
  std::string holder = {};   // the worker that asked for it
  std::string purpose = {};  // the model's name, for people
  // The unique name of the holder's process, so that its end can be proven. It
  // is empty if nobody can watch that process.
  std::string process = {};
  // The hash of a secret that only the holder knows; empty if there is none.
  // The book only stores it.
  std::string secret_hash = {};
  int64_t bytes = 0;           // granted bytes
  int64_t measured_bytes = 0;  // allocated bytes, as Confirm reported; 0 before
  int64_t epoch = 0;           // grows with every grant of a planner
  LeaseState state = LeaseState::kReserved;
  bool was_confirmed = false;  // true for a load that became suspect
  absl::Time granted = {};
  absl::Time expires = {};
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_H_
