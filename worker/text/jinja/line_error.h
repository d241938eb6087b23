// The form of every error of a template.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_LINE_ERROR_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_LINE_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker::jinja {

// "line N: what", kInvalidArgument.
absl::Status LineError(int line, absl::string_view what);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_LINE_ERROR_H_
