// The lease book writes through this interface what must outlive its process.
// The book itself knows no disk.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_JOURNAL_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_JOURNAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planner/lease/lease.h"

namespace plimsoll::planner {

// This is what a journal keeps of a lease. Renewals and expiry are not kept: a
// restored lease gets a whole time to live.
struct LeaseRecord {
  Lease lease;
  std::string request_id;  // the Reserve that made it had it; empty if adopted
};

// This is what a journal held when it was opened.
struct LeaseImage {
  std::vector<LeaseRecord> records;  // the live and the lately released leases
  // It is above the epoch of every lease that was written with a grant, and at
  // most LeaseBook::kMaxEpoch.
  int64_t next_epoch = 1;
  // The writer ended before it knew all leases, so the records may be only a
  // part of what is held.
  bool is_partial = false;
};

// The book calls it under its owner's mutex.
class LeaseJournal {
 public:
  virtual ~LeaseJournal() = default;

  // Makes a new lease durable, together with all that was noted before; from
  // here on the journal is whole. The lease counts only if this is OK; if not,
  // it may be on the disk or not. Later leases have epochs from `next_epoch`.
  // Errors: kUnavailable.
  virtual absl::Status Write(const LeaseRecord& record, int64_t next_epoch) = 0;

  // Notes what became of a lease, to be durable with the next Write at the
  // latest.
  virtual void Note(const Lease& lease) = 0;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_JOURNAL_H_
