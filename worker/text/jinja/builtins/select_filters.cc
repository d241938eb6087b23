#include "worker/text/jinja/builtins/select_filters.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/builtins/attribute_path.h"
#include "worker/text/jinja/builtins/filters.h"
#include "worker/text/jinja/builtins/named_filter.h"
#include "worker/text/jinja/builtins/tests.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"

namespace plimsoll::worker::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using MaybeValue = std::optional<Value>;

// The deepest of the arguments, which a generator holds.
int DepthOf(const Value& self, const Arguments& arguments) {
  int depth = self.Depth();
  for (const Value& value : arguments.positional) {
    depth = std::max(depth, value.Depth());
  }
  for (const auto& named : arguments.named) {
    depth = std::max(depth, named.second.Depth());
  }
  return depth;
}

// Removes the first argument, which names a filter or a test.
absl::StatusOr<Text> TakeName(Arguments& arguments) {
  ASSIGN_OR_RETURN(Text name, TextArgument(arguments.positional[0]));
  arguments.positional.erase(arguments.positional.begin());
  return name;
}

// The elements of a value, which are asked for when the first is needed.
class LazyElements {
 public:
  explicit LazyElements(Value value) : value_(std::move(value)) {}

  absl::StatusOr<MaybeValue> Next(Evaluator& evaluator) {
    if (!value_.Truth()) return std::nullopt;
    if (iterator_ == nullptr) {
      ASSIGN_OR_RETURN(iterator_, Iterate(value_));
    }
    return iterator_->Next(evaluator);
  }

 private:
  Value value_;
  std::shared_ptr<Iterator> iterator_;
};

// What `map` makes of one element.
Result Mapped(Evaluator& evaluator, const Value& item, Arguments&& arguments) {
  if (!arguments.positional.empty()) {
    ASSIGN_OR_RETURN(const Text name, TakeName(arguments));
    return evaluator.ApplyFilter(FindFilter(name.bytes()), name.bytes(), item,
                                 std::move(arguments));
  }
  const MaybeValue attribute = arguments.Take("attribute");
  if (!attribute) return TypeError("map requires a filter argument");
  const MaybeValue fallback = arguments.Take("default");
  if (!arguments.named.empty()) {
    return TypeError(absl::StrCat("Unexpected keyword argument '",
                                  arguments.named[0].first, "'"));
  }
  return AttributePath(attribute, fallback).Find(evaluator, item);
}

Result MapFilter(Evaluator&, const Value& self, Arguments&& arguments) {
  const int depth = DepthOf(self, arguments);
  return MakeGenerator(
      depth,
      [arguments, items = LazyElements(self)](
          Evaluator& evaluator) mutable -> absl::StatusOr<MaybeValue> {
        ASSIGN_OR_RETURN(MaybeValue item, items.Next(evaluator));
        if (!item) return std::nullopt;
        ASSIGN_OR_RETURN(Value mapped,
                         Mapped(evaluator, *item, Arguments(arguments)));
        return mapped;
      });
}

// Whether an element passes the test that the arguments name.
absl::StatusOr<bool> Passes(Evaluator& evaluator, const Value& item,
                            Arguments&& arguments, bool has_attribute) {
  Value tested = item;
  if (has_attribute) {
    if (arguments.positional.empty()) {
      return TypeError("Missing parameter for attribute name");
    }
    ASSIGN_OR_RETURN(
        tested, AttributePath(arguments.positional[0]).Find(evaluator, item));
    arguments.positional.erase(arguments.positional.begin());
  }
  if (arguments.positional.empty()) return tested.Truth();
  ASSIGN_OR_RETURN(const Text name, TakeName(arguments));
  return evaluator.ApplyTest(FindTest(name.bytes()), name.bytes(), tested,
                             std::move(arguments));
}

template <bool keeps, bool has_attribute>
Result Select(Evaluator&, const Value& self, Arguments&& arguments) {
  const int depth = DepthOf(self, arguments);
  return MakeGenerator(
      depth,
      [arguments, items = LazyElements(self)](
          Evaluator& evaluator) mutable -> absl::StatusOr<MaybeValue> {
        while (true) {
          ASSIGN_OR_RETURN(MaybeValue item, items.Next(evaluator));
          if (!item) return std::nullopt;
          ASSIGN_OR_RETURN(
              const bool passes,
              Passes(evaluator, *item, Arguments(arguments), has_attribute));
          if (passes == keeps) return item;
        }
      });
}

constexpr NamedFilter kSelectFilters[] = {
    {"map", MapFilter},
    {"select", Select<true, false>},
    {"reject", Select<false, false>},
    {"selectattr", Select<true, true>},
    {"rejectattr", Select<false, true>},
};

}  // namespace

NativeFunction FindSelectFilter(absl::string_view name) {
  return FindIn(kSelectFilters, name);
}

}  // namespace plimsoll::worker::jinja
