// Tables of filters.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_NAMED_FILTER_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_NAMED_FILTER_H_

#include "absl/strings/string_view.h"
#include "worker/text/jinja/objects.h"

namespace plimsoll::worker::jinja {

struct NamedFilter {
  absl::string_view name;
  NativeFunction function;
};

// The function of the filter that is called `name`, or null.
template <typename Filters>
NativeFunction FindIn(const Filters& filters, absl::string_view name) {
  for (const NamedFilter& filter : filters) {
    if (filter.name == name) return filter.function;
  }
  return nullptr;
}

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_NAMED_FILTER_H_
