#include "worker/text/jinja/methods.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/string_methods.h"

namespace plimsoll::worker::jinja {
namespace {

absl::StatusOr<Value> DictGet(Evaluator&, const Value& self,
                              Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("get", arguments, 1, 2));
  const Value& key = arguments.positional[0];
  if (!IsHashable(key)) return Unhashable(key);
  const Value* found = self.dict().Find(key);
  if (found != nullptr) return *found;
  if (arguments.positional.size() == 2) return arguments.positional[1];
  return Value(None());
}

absl::StatusOr<Value> DictView(const Value& self, const Arguments& arguments,
                               View::Kind kind) {
  RETURN_IF_ERROR(ExpectPositional("a dict's method", arguments, 0, 0));
  RETURN_IF_ERROR(CheckNesting(self.Depth() + 1));
  return Value(View{self.shared_dict(), kind});
}

absl::StatusOr<Value> DictItems(Evaluator&, const Value& self,
                                Arguments&& arguments) {
  return DictView(self, arguments, View::Kind::kItems);
}
absl::StatusOr<Value> DictKeys(Evaluator&, const Value& self,
                               Arguments&& arguments) {
  return DictView(self, arguments, View::Kind::kKeys);
}
absl::StatusOr<Value> DictValues(Evaluator&, const Value& self,
                                 Arguments&& arguments) {
  return DictView(self, arguments, View::Kind::kValues);
}

// Nothing changes, so the copy is the value itself.
absl::StatusOr<Value> Copy(Evaluator&, const Value& self,
                           Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("copy", arguments, 0, 0));
  return self;
}

// These are of lists, tuples and ranges.
absl::StatusOr<Value> ListCount(Evaluator& evaluator, const Value& self,
                                Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("count", arguments, 1, 1));
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(evaluator, self));
  int64_t n = 0;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const bool is_equal,
                     Equal(evaluator, item, arguments.positional[0]));
    n += is_equal ? 1 : 0;
  }
  return Value(n);
}

absl::StatusOr<Value> ListIndex(Evaluator& evaluator, const Value& self,
                                Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("index", arguments, 1, 1));
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(evaluator, self));
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool is_equal,
                     Equal(evaluator, items[i], arguments.positional[0]));
    if (is_equal) return Value(static_cast<int64_t>(i));
  }
  return TypeError("the value is not in the list");
}

NativeFunction FindDictMethod(absl::string_view name) {
  if (name == "get") return DictGet;
  if (name == "items") return DictItems;
  if (name == "keys") return DictKeys;
  if (name == "values") return DictValues;
  if (name == "copy") return Copy;
  return nullptr;
}

NativeFunction FindListMethod(const Value& value, absl::string_view name) {
  if (name == "count") return ListCount;
  if (name == "index") return ListIndex;
  const bool is_list = value.is_list() && !value.list().is_tuple;
  return name == "copy" && is_list ? Copy : nullptr;
}

// True for methods that would change the value.
bool IsForbidden(const Value& value, absl::string_view name) {
  constexpr absl::string_view kOfDicts[] = {"clear", "pop", "popitem",
                                            "setdefault", "update"};
  constexpr absl::string_view kOfLists[] = {"append",  "clear",  "pop",
                                            "reverse", "insert", "remove",
                                            "sort",    "extend"};
  const auto has = [name](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) !=
           std::end(names);
  };
  if (value.is_dict()) return has(kOfDicts);
  return value.is_list() && !value.list().is_tuple && has(kOfLists);
}

}  // namespace

NativeFunction FindMethod(const Value& value, absl::string_view name) {
  if (value.is_string()) return FindStringMethod(name);
  if (value.is_dict()) return FindDictMethod(name);
  if (value.is_list() || value.is_range()) return FindListMethod(value, name);
  if (value.is_object()) return FindObjectMethod(value.object(), name);
  return nullptr;
}

const Value* FindHeldMember(const Value& value, absl::string_view name) {
  if (value.is_object()) {
    return absl::StartsWith(name, "_") ? nullptr
                                       : value.object().HeldMember(name);
  }
  if (!value.is_dict()) return nullptr;
  const bool is_hidden =
      FindDictMethod(name) != nullptr || IsForbidden(value, name);
  return is_hidden ? nullptr : value.dict().Find(name);
}

absl::StatusOr<std::optional<Value>> FindMember(Evaluator& evaluator,
                                                const Value& value,
                                                absl::string_view name) {
  if (const NativeFunction method = FindMethod(value, name)) {
    RETURN_IF_ERROR(CheckNesting(value.Depth() + 1));
    return Value(
        std::shared_ptr<Object>(std::make_shared<Function>(method, value)));
  }
  std::optional<Value> member;
  if (value.is_list() && value.list().is_group) {
    if (name == "grouper") return value.items()[0];
    if (name == "list") return value.items()[1];
  }
  if (value.is_object()) {
    ASSIGN_OR_RETURN(member, value.object().Member(evaluator, name));
  }
  if (IsForbidden(value, name) || (member && absl::StartsWith(name, "_"))) {
    return Value::MakeUndefined(absl::StrCat("access to attribute '", name,
                                             "' of '", value.TypeName(),
                                             "' object is unsafe."));
  }
  return member;
}

}  // namespace plimsoll::worker::jinja
