// A mark is a small file that shows that a planner has run here. It outlives
// the journal beside it: a user who loses a journal often keeps its folder.
//
// It does not name the boot of the host. Another boot would not prove that
// earlier holders are gone: the journal may have moved to another host, and
// workers may run on several hosts.
#ifndef PLIMSOLL_SERVICES_PLANNER_USE_MARK_H_
#define PLIMSOLL_SERVICES_PLANNER_USE_MARK_H_

#include <string>

#include "absl/status/status.h"

namespace plimsoll::services {

// Returns the path of the mark for planners that use the journal at `journal`.
std::string MarkPath(const std::string& journal);
// Returns the path of the mark that all planners of this host share, with or
// without a journal: below ${XDG_STATE_HOME} or ~/.local/state. Empty if the
// environment names neither.
std::string HostMarkPath();

// Returns true if a file exists at `path`, or if that cannot be determined.
bool Exists(const std::string& path);
// Writes a mark to the disk, and creates its folder if necessary. It ends with
// the line `about`, if that is not empty. Errors: kUnavailable.
absl::Status WriteMark(const std::string& path, const std::string& about = "");
// Returns the line `about` of a mark; empty if there is none.
std::string AboutOfMark(const std::string& path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_USE_MARK_H_
