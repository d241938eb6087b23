#include "worker/text/jinja/arguments.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/text/jinja/operations.h"

namespace plimsoll::worker::jinja {

absl::StatusOr<BoundArguments> Bind(
    absl::string_view function, std::initializer_list<absl::string_view> names,
    size_t n_required, Arguments&& arguments) {
  const size_t n = arguments.positional.size();
  if (n > names.size()) {
    return TypeError(absl::StrCat(function, "() takes at most ", names.size(),
                                  " arguments, not ", n));
  }
  BoundArguments bound(names.size());
  size_t i = 0;
  for (const absl::string_view name : names) {
    if (i < n) {
      bound[i] = std::move(arguments.positional[i]);
    } else {
      bound[i] = arguments.Take(name);
    }
    if (i < n_required && !bound[i]) {
      return TypeError(absl::StrCat(
          function, "() missing 1 required argument: '", name, "'"));
    }
    ++i;
  }
  if (arguments.named.empty()) return bound;
  return TypeError(absl::StrCat(function,
                                "() got an unexpected keyword argument '",
                                arguments.named[0].first, "'"));
}

absl::Status ExpectPositional(absl::string_view function,
                              const Arguments& arguments, size_t least,
                              size_t most) {
  const size_t n = arguments.positional.size();
  if (!arguments.named.empty()) {
    return TypeError(absl::StrCat(function, "() takes no keyword arguments"));
  }
  if (n >= least && n <= most) return absl::OkStatus();
  return TypeError(absl::StrCat(function, "() takes ", least, " to ", most,
                                " arguments, not ", n));
}

absl::StatusOr<Text> TextArgument(const std::optional<Value>& value,
                                  absl::string_view fallback) {
  if (!value) return Text(std::string(fallback));
  if (value->is_string()) return value->text();
  if (value->is_undefined()) return UndefinedError(*value);
  return TypeError(
      absl::StrCat("an argument must be str, not ", value->TypeName()));
}

absl::StatusOr<int64_t> IntegerArgument(const std::optional<Value>& value,
                                        int64_t fallback) {
  if (!value) return fallback;
  if (value->is_integer()) return value->integer();
  return TypeError(absl::StrCat("'", value->TypeName(),
                                "' object cannot be interpreted as an "
                                "integer"));
}

bool TruthArgument(const std::optional<Value>& value) {
  return value && value->Truth();
}

}  // namespace plimsoll::worker::jinja
