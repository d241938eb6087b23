// SQLite's file system with faults: from the n-th write or sync on, calls fail,
// or the process ends there as in a power cut.
#ifndef PLIMSOLL_TESTS_SERVICES_PLANNER_FAULTY_VFS_H_
#define PLIMSOLL_TESTS_SERVICES_PLANNER_FAULTY_VFS_H_

#include <cstdint>

namespace plimsoll::services::testing {

inline constexpr char kFaultyVfs[] = "faulty";

struct VfsFaults {
  // The n-th write, sync, truncation or deletion from now on, counted from 1,
  // and all later ones. 0 = none.
  int64_t at = 0;
  // Ends the process there; what was written and not synced may be lost.
  bool is_power_cut = false;
  // Otherwise these are the results of writes and syncs; SQLITE_OK = as usual.
  int write_code = 0;
  int sync_code = 0;
  // Decides which unsynced writes a power cut loses.
  uint64_t seed = 0;
};

// Registers the file system (once) and sets its faults; the count starts again.
void SetVfsFaults(const VfsFaults& faults);

// Writes, syncs, truncations and deletions since then.
int64_t CountVfsCalls();

}  // namespace plimsoll::services::testing

#endif  // PLIMSOLL_TESTS_SERVICES_PLANNER_FAULTY_VFS_H_
