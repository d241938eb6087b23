// Bytes of a device that somebody holds.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace plimsoll::planner {

// How long things take between a planner and the holders of its leases.
struct LeaseTimes {
  static constexpr absl::Duration kDefaultTtl = absl::Seconds(10);
  static constexpr absl::Duration kDefaultGrace = absl::Seconds(5);
  static constexpr absl::Duration kMinTtl = absl::Milliseconds(500);
  static constexpr absl::Duration kMinGrace = absl::Milliseconds(100);
  static constexpr absl::Duration kMaxTime = absl::Hours(1);  // of each

  // How long a lease lives without a renewal.
  absl::Duration ttl = kDefaultTtl;
  // From a reservation's end to the first reading that may end it: as long as
  // a message may be on its way.
  absl::Duration grace = kDefaultGrace;
  // How long a planner that may have forgotten leases grants nothing. Not less
  // than `ttl`: by then every reservation of an earlier planner has ended.
  absl::Duration recovery = kDefaultTtl;
};

// Errors: kInvalidArgument with the bound that is broken.
absl::Status CheckLeaseTimes(const LeaseTimes& times);

// Life of a lease. Expiry alone frees nothing: the bytes of an expired lease
// are SUSPECT and still count as used until they are released or proven free.
enum class LeaseState { kReserved, kConfirmed, kSuspect, kReleased };
const char* LeaseStateName(LeaseState state);

struct Lease {
  std::string id = {};  // opaque, chosen by the caller of Reserve
  std::string device_id = {};
  std::string holder = {};   // who asked
  std::string purpose = {};  // model name, for people
  // Names the holder's process uniquely, so that its end can be proven; empty
  // if nobody can watch it.
  std::string process = {};
  int64_t bytes = 0;           // granted
  int64_t measured_bytes = 0;  // reported by Confirm; 0 before
  int64_t epoch = 0;           // grows with every grant of a planner
  LeaseState state = LeaseState::kReserved;
  bool was_confirmed = false;  // tells suspect reservations from suspect loads
  absl::Time granted = {};
  absl::Time expires = {};
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_H_
