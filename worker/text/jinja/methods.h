// Members of values: methods of strings, dicts and lists, and members of
// objects.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_METHODS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_METHODS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/objects.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// The member `name` of a value that is not undefined. Members that the sandbox
// of jinja2 forbids, such as the methods that change a list, are undefined
// values. Nothing if there is no such member.
absl::StatusOr<std::optional<Value>> FindMember(Evaluator& evaluator,
                                                const Value& value,
                                                absl::string_view name);

// A method of the value by its name, or null.
NativeFunction FindMethod(const Value& value, absl::string_view name);
// `value.name` if the value stores it: a dict's item that no method hides, or a
// member of a namespace; else null. The pointer is valid until another value is
// computed.
const Value* FindHeldMember(const Value& value, absl::string_view name);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_METHODS_H_
