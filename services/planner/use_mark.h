// The mark is a small file that says that a planner has been here. It outlives
// the journal beside it: who loses a journal often keeps its folder.
//
// It does not name the boot of the host. Another boot would not prove that the
// holders of before are gone: the journal may have moved to another host, and
// workers may run on several.
#ifndef PLIMSOLL_SERVICES_PLANNER_USE_MARK_H_
#define PLIMSOLL_SERVICES_PLANNER_USE_MARK_H_

#include <string>

#include "absl/status/status.h"

namespace plimsoll::services {

// Returns where the mark of planners with the journal at `journal` lies.
std::string MarkPath(const std::string& journal);
// Returns where the mark of all planners of this host lies, with a journal
// wherever or without one: below ${XDG_STATE_HOME}, or ~/.local/state. It is
// empty if the environment names neither.
std::string HostMarkPath();

// Returns whether something lies at `path`, or whether that cannot be told.
bool Exists(const std::string& path);
// Writes a mark to the disk, with its folder if need be. It ends with the line
// `about`, if any. Errors: kUnavailable.
absl::Status WriteMark(const std::string& path, const std::string& about = "");
// Returns that line of a mark; empty if there is none.
std::string AboutOfMark(const std::string& path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_USE_MARK_H_
