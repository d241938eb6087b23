// Checks the values that a lease book gets: in requests, in its journal's
// records, and for devices. Each error is kInvalidArgument and names the value.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_CHECKS_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/lease/lease.h"
#include "planner/lease/lease_book.h"
#include "planner/lease/lease_journal.h"

namespace plimsoll::planner {

// An id must not be empty; the error calls it `name`.
absl::Status CheckId(absl::string_view name, const std::string& id);

absl::Status CheckRequest(const LeaseBook::ReserveRequest& request);
absl::Status CheckRecord(const LeaseRecord& record);

// The bytes that the holder of `lease` reports as allocated.
absl::Status CheckMeasured(int64_t bytes, const Lease& lease);

// The policies of a device (BookedDevice).
absl::Status CheckPolicies(int64_t headroom_bytes, int64_t limit_bytes);

// The free bytes of a device, by its own reading.
absl::Status CheckFree(int64_t bytes);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_CHECKS_H_
