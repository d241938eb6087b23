// Bytes of a device that somebody holds.
#ifndef PLIMSOLL_PLANNER_LEASE_H_
#define PLIMSOLL_PLANNER_LEASE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace plimsoll::planner {

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

#endif  // PLIMSOLL_PLANNER_LEASE_H_
