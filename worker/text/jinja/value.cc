#include "worker/text/jinja/value.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker::jinja {
namespace {

// Equality of keys, which are hashable.
bool IsSameKey(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.bytes() == b.bytes();
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? a.number() == b.number()
                                        : a.integer() == b.integer();
  }
  if (a.is_undefined() && b.is_undefined()) return true;
  if (a.is_list() && b.is_list()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(),
                      b.items().end(), IsSameKey);
  }
  return a.IsSame(b);
}

}  // namespace

Value Value::MakeUndefined(std::string why) {
  return Value(Kind::kUndefined,
               std::make_shared<const Undefined>(Undefined{std::move(why)}));
}

Value Value::MissingMember(absl::string_view type_name,
                           absl::string_view member) {
  return Value(Kind::kUndefined, std::make_shared<const Undefined>(Undefined{
                                     {}, type_name, std::string(member)}));
}

absl::Status CheckNesting(int depth) {
  if (depth <= kMaxNesting) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("values are nested deeper than the limit of ", kMaxNesting));
}

absl::StatusOr<Value> Value::MakeList(std::vector<Value> items, bool is_tuple) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.Depth());
  RETURN_IF_ERROR(CheckNesting(depth + 1));
  return Value(Kind::kList, std::make_shared<const List>(
                                List{std::move(items), is_tuple, depth + 1}));
}

std::string Value::why_undefined() const {
  if (shared_ == nullptr) return "the value is undefined";
  const auto& undefined = As<Undefined>();
  if (undefined.type_name.empty()) return undefined.why;
  return absl::StrCat("'", undefined.type_name, " object' has no attribute '",
                      undefined.member, "'");
}

absl::StatusOr<Value> Value::MakeGroup(Value grouper, Value list) {
  ASSIGN_OR_RETURN(const Value tuple,
                   MakeTuple({std::move(grouper), std::move(list)}));
  List group = tuple.list();
  group.is_group = true;
  return Value(Kind::kList, std::make_shared<const List>(std::move(group)));
}

absl::string_view Value::TypeName() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (is_string()) return text().is_markup() ? "Markup" : "str";
  if (is_list()) return list().is_tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (is_range()) return "range";
  if (is_iterator()) return "generator";
  if (is_object()) return object().TypeName();
  switch (view().kind) {
    case View::Kind::kKeys:
      return "dict_keys";
    case View::Kind::kValues:
      return "dict_values";
    case View::Kind::kItems:
      return "dict_items";
  }
  return "";
}

bool Value::Truth() const {
  if (is_bool()) return boolean();
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (is_string()) return text().size() > 0;
  if (is_list()) return !items().empty();
  if (is_dict()) return dict().size() > 0;
  if (is_view()) return view().dict->size() > 0;
  if (is_range()) return range().n > 0;
  return true;
}

int Value::Depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth();
  if (is_view()) return view().dict->depth() + 1;
  if (is_iterator()) return iterator().depth();
  if (is_object()) return object().depth();
  return 0;
}

bool Value::IsSame(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (is_float()) return float_ == other.float_;
  return integer_ == other.integer_ && shared_ == other.shared_;
}

bool IsHashable(const Value& value) {
  if (value.is_dict()) return false;
  // Views of values are equal to themselves alone.
  if (value.is_view()) return value.view().kind == View::Kind::kValues;
  if (!value.is_list()) return true;
  // Deeper tuples could be shared so often that to compare them never ends.
  return value.list().is_tuple && value.list().depth == 1 &&
         std::all_of(value.items().begin(), value.items().end(), IsHashable);
}

absl::Status Unhashable(const Value& value) {
  return absl::InvalidArgumentError(
      absl::StrCat("unhashable type: '", value.TypeName(), "'"));
}

std::optional<size_t> Dict::Place(absl::string_view key) const {
  if (pairs_.size() > kFew) {
    const auto found = places_.find(key);
    if (found == places_.end()) return std::nullopt;
    return found->second;
  }
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Value& other = pairs_[i].first;
    if (other.is_string() && other.bytes() == key) return i;
  }
  return std::nullopt;
}

std::optional<size_t> Dict::Place(const Value& key) const {
  if (key.is_string()) return Place(key.bytes());
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (IsSameKey(pairs_[i].first, key)) return i;
  }
  return std::nullopt;
}

const Value* Dict::Find(const Value& key) const {
  const auto place = Place(key);
  return place ? &pairs_[*place].second : nullptr;
}

const Value* Dict::Find(absl::string_view key) const {
  const auto place = Place(key);
  return place ? &pairs_[*place].second : nullptr;
}

absl::Status Dict::Set(Value key, Value value) {
  if (!IsHashable(key)) return Unhashable(key);
  depth_ = std::max({depth_, key.Depth() + 1, value.Depth() + 1});
  RETURN_IF_ERROR(CheckNesting(depth_));
  if (const auto place = Place(key)) {
    pairs_[*place].second = std::move(value);
    return absl::OkStatus();
  }
  pairs_.emplace_back(std::move(key), std::move(value));
  if (pairs_.size() <= kFew) return absl::OkStatus();
  const size_t first = pairs_.size() == kFew + 1 ? 0 : pairs_.size() - 1;
  for (size_t i = first; i < pairs_.size(); ++i) {
    const Value& added = pairs_[i].first;
    if (added.is_string()) places_.emplace(added.bytes(), i);
  }
  return absl::OkStatus();
}

std::optional<Value> Arguments::Take(absl::string_view name) {
  for (auto it = named.begin(); it != named.end(); ++it) {
    if (it->first != name) continue;
    Value value = std::move(it->second);
    named.erase(it);
    return value;
  }
  return std::nullopt;
}

absl::StatusOr<Value> Object::Call(Evaluator&, Arguments&&) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", TypeName(), "' object is not callable"));
}

std::string Object::Repr() const { return absl::StrCat("<", TypeName(), ">"); }

}  // namespace plimsoll::worker::jinja
