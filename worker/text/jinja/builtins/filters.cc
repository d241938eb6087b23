#include "worker/text/jinja/builtins/filters.h"

#include "worker/text/jinja/builtins/list_filters.h"
#include "worker/text/jinja/builtins/number_filters.h"
#include "worker/text/jinja/builtins/select_filters.h"
#include "worker/text/jinja/builtins/text_filters.h"

namespace plimsoll::worker::jinja {
namespace {

absl::StatusOr<Value> NotSupported(Evaluator&, const Value&, Arguments&&) {
  return absl::InvalidArgumentError("this filter is not supported");
}

}  // namespace

NativeFunction FindFilter(absl::string_view name) {
  for (const auto find :
       {FindTextFilter, FindListFilter, FindSelectFilter, FindNumberFilter}) {
    if (const NativeFunction filter = find(name)) return filter;
  }
  constexpr absl::string_view kMissing[] = {
      "filesizeformat", "pprint",  "random",  "striptags",
      "urlize",         "xmlattr", "wordwrap"};
  for (const absl::string_view missing : kMissing) {
    if (name == missing) return NotSupported;
  }
  return nullptr;
}

}  // namespace plimsoll::worker::jinja
