// Checks JSON text from outside before it is parsed into a tree.
#ifndef PLIMSOLL_WORKER_TEXT_JSON_CHECK_H_
#define PLIMSOLL_WORKER_TEXT_JSON_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// Returns OK if `text` is JSON whose arrays and objects are nested at most
// `max_depth` deep and whose objects name every member once.
// Errors: kInvalidArgument naming the byte or the member.
absl::Status CheckJson(absl::string_view text, int max_depth);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_JSON_CHECK_H_
