// Filters: the functions that a template names after "|".
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_FILTERS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_FILTERS_H_

#include "absl/strings/string_view.h"
#include "worker/text/jinja/objects.h"

namespace plimsoll::worker::jinja {

// A filter by its name, or null. `self` is the value that it is applied to.
// Filters of jinja2 that this interpreter lacks are found too, and fail when
// they run.
NativeFunction FindFilter(absl::string_view name);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_FILTERS_H_
