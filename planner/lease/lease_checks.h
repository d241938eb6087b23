// Which values a lease book takes: of requests, of its journal's records, and
// of devices. Each error is kInvalidArgument and names the value.
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

// An id that must be there; `name` is what the error calls it.
absl::Status CheckId(absl::string_view name, const std::string& id);

absl::Status CheckRequest(const LeaseBook::ReserveRequest& request);
absl::Status CheckRecord(const LeaseRecord& record);

// What the holder of `lease` says that it has allocated.
absl::Status CheckMeasured(int64_t bytes, const Lease& lease);

// The policies of a device (BookedDevice).
absl::Status CheckPolicies(int64_t headroom_bytes, int64_t limit_bytes);

// What is free on a device by its own reading.
absl::Status CheckFree(int64_t bytes);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_CHECKS_H_
