// Filters that make numbers, and those that take any value.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_NUMBER_FILTERS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_NUMBER_FILTERS_H_

#include "absl/strings/string_view.h"
#include "worker/text/jinja/objects.h"

namespace plimsoll::worker::jinja {

// A filter of this kind by its name, or null.
NativeFunction FindNumberFilter(absl::string_view name);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_NUMBER_FILTERS_H_
