// Filters of lists and dicts.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_LIST_FILTERS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_LIST_FILTERS_H_

#include "absl/strings/string_view.h"
#include "worker/text/jinja/objects.h"

namespace plimsoll::worker::jinja {

// A filter of this kind by its name, or null.
NativeFunction FindListFilter(absl::string_view name);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_LIST_FILTERS_H_
