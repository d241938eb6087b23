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

// The filters of each file, by their names; null for others.
NativeFunction FindTextFilter(absl::string_view name);
NativeFunction FindListFilter(absl::string_view name);
NativeFunction FindSelectFilter(absl::string_view name);
NativeFunction FindNumberFilter(absl::string_view name);

struct NamedFilter {
  absl::string_view name;
  NativeFunction function;
};
template <typename Filters>
NativeFunction FindIn(const Filters& filters, absl::string_view name) {
  for (const NamedFilter& filter : filters) {
    if (filter.name == name) return filter.function;
  }
  return nullptr;
}

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_FILTERS_H_
