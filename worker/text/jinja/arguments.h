// Reads the arguments of functions, methods and filters.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_ARGUMENTS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

using BoundArguments = std::vector<std::optional<Value>>;

// Binds the arguments to the parameters `names`, in this order. A parameter
// without an argument gets nullopt. The first `n_required` must have one.
// Errors: kInvalidArgument for any other arguments.
absl::StatusOr<BoundArguments> Bind(
    absl::string_view function, std::initializer_list<absl::string_view> names,
    size_t n_required, Arguments&& arguments);
// Errors: kInvalidArgument if there are named arguments, or too few or too many
// positional ones.
absl::Status ExpectPositional(absl::string_view function,
                              const Arguments& arguments, size_t least,
                              size_t most);

// Returns the value in the type that the function's name says; `fallback` if it
// is absent.
// Errors: kInvalidArgument for another type.
absl::StatusOr<Text> TextArgument(const std::optional<Value>& value,
                                  absl::string_view fallback = "");
absl::StatusOr<int64_t> IntegerArgument(const std::optional<Value>& value,
                                        int64_t fallback);
// The truth of the value; false if it is absent.
bool TruthArgument(const std::optional<Value>& value);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_ARGUMENTS_H_
