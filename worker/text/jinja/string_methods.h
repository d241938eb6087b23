// The methods of str.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_STRING_METHODS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_STRING_METHODS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/objects.h"
#include "worker/text/jinja/text.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// A method of str by its name, or null.
NativeFunction FindStringMethod(absl::string_view name);

// Filters and tests share the functions below. CheckReplaced accounts for the
// work of replacing all of `old`.
absl::Status CheckReplaced(Evaluator& evaluator, const Text& text,
                           const Text& old, const Text& fresh);
// Joins `items`; with `converts`, other values are converted to strings.
// Errors: kInvalidArgument for an item that is no string; those of MakeText.
absl::StatusOr<Value> JoinTexts(Evaluator& evaluator,
                                const std::vector<Value>& items,
                                const Text& separator, bool converts);
// True if there are letters with case, and all of them have this case.
bool IsAllOfCase(const Text& text, bool is_upper);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_STRING_METHODS_H_
