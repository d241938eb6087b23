#include "worker/text/jinja/operations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/format.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/methods.h"
#include "worker/text/jinja/printing.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

absl::Status Overflow() {
  return absl::InvalidArgumentError(
      "an integer is beyond the limit of 64 bits");
}

absl::Status Unsupported(absl::string_view sign, const Value& a,
                         const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return UndefinedError(*value);
  }
  return TypeError(absl::StrCat("unsupported operand type(s) for ", sign, ": '",
                                a.TypeName(), "' and '", b.TypeName(), "'"));
}

// Whether Python subtracts from it, and it from others, as from a set.
bool IsSetLike(const Value& value) {
  return value.is_view() && value.view().kind != View::Kind::kValues;
}

long double Exact(const Value& value) {
  return value.is_float() ? static_cast<long double>(value.number())
                          : static_cast<long double>(value.integer());
}

// Equality of two lists, or of two dicts.
absl::StatusOr<bool> EqualItems(Evaluator& evaluator, const Value& a,
                                const Value& b) {
  if (a.is_list()) {
    if (a.list().is_tuple != b.list().is_tuple) return false;
    if (a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i) {
      ASSIGN_OR_RETURN(const bool is_equal,
                       Equal(evaluator, a.items()[i], b.items()[i]));
      if (!is_equal) return false;
    }
    return true;
  }
  if (a.dict().size() != b.dict().size()) return false;
  for (const Dict::Pair& pair : a.dict().pairs()) {
    const Value* other = b.dict().Find(pair.first);
    if (other == nullptr) return false;
    ASSIGN_OR_RETURN(const bool is_equal,
                     Equal(evaluator, pair.second, *other));
    if (!is_equal) return false;
  }
  return true;
}

absl::StatusOr<bool> LessLists(Evaluator& evaluator, const Value& a,
                               const Value& b) {
  const size_t n = std::min(a.items().size(), b.items().size());
  for (size_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(const bool is_equal,
                     Equal(evaluator, a.items()[i], b.items()[i]));
    if (!is_equal) return IsLess(evaluator, a.items()[i], b.items()[i]);
  }
  return a.items().size() < b.items().size();
}

// True if "<" orders the two.
bool AreOrdered(const Value& a, const Value& b) {
  return (a.is_number() && b.is_number()) || (a.is_string() && b.is_string()) ||
         (a.is_list() && b.is_list() && a.list().is_tuple == b.list().is_tuple);
}

absl::StatusOr<Value> Integers(absl::string_view sign, int64_t a, int64_t b) {
  int64_t out = 0;
  if (sign == "+"   ? __builtin_add_overflow(a, b, &out)
      : sign == "-" ? __builtin_sub_overflow(a, b, &out)
                    : __builtin_mul_overflow(a, b, &out)) {
    return Overflow();
  }
  return Value(out);
}

absl::StatusOr<Value> Divided(absl::string_view sign, const Value& a,
                              const Value& b) {
  if (b.number() == 0) {
    return absl::InvalidArgumentError("division by zero");
  }
  if (sign == "/") return Value(a.number() / b.number());
  if (a.is_float() || b.is_float()) {
    double rest = std::fmod(a.number(), b.number());
    if (rest != 0 && (rest < 0) != (b.number() < 0)) rest += b.number();
    if (sign == "%") {
      return Value(rest == 0 ? std::copysign(0.0, b.number()) : rest);
    }
    const double quotient = (a.number() - rest) / b.number();
    const double whole = std::floor(quotient);
    return Value(quotient - whole > 0.5 ? whole + 1 : whole);
  }
  const int64_t x = a.integer();
  const int64_t y = b.integer();
  if (y == -1) return sign == "%" ? Value(int64_t{0}) : Integers("-", 0, x);
  const bool is_floored = x % y != 0 && (x < 0) != (y < 0);
  if (sign == "%") return Value(x % y + (is_floored ? y : 0));
  return Value(x / y - (is_floored ? 1 : 0));
}

absl::StatusOr<Value> Power(const Value& a, const Value& b) {
  if (a.is_float() || b.is_float() || b.integer() < 0) {
    if (a.number() == 0 && b.number() < 0) {
      return absl::InvalidArgumentError(
          "0 cannot be raised to a negative power");
    }
    const double power = std::pow(a.number(), b.number());
    if (std::isnan(power) || (std::isinf(power) && std::isfinite(a.number()) &&
                              std::isfinite(b.number()))) {
      return absl::InvalidArgumentError("the result of ** is no number");
    }
    return Value(power);
  }
  int64_t base = a.integer();
  int64_t out = 1;
  for (int64_t left = b.integer(); left > 0; left /= 2) {
    if (left % 2 == 1 && __builtin_mul_overflow(out, base, &out)) {
      return Overflow();
    }
    if (left > 1 && __builtin_mul_overflow(base, base, &base)) {
      return Overflow();
    }
  }
  return Value(out);
}

absl::StatusOr<Value> Arithmetic(absl::string_view sign, const Value& a,
                                 const Value& b) {
  if (sign == "/" || sign == "//" || sign == "%") return Divided(sign, a, b);
  if (sign == "**") return Power(a, b);
  if (a.is_integer() && b.is_integer()) {
    return Integers(sign, a.integer(), b.integer());
  }
  if (sign == "+") return Value(a.number() + b.number());
  if (sign == "-") return Value(a.number() - b.number());
  return Value(a.number() * b.number());
}

absl::StatusOr<Value> Joined(Evaluator& evaluator, const Value& a,
                             const Value& b) {
  if (a.is_string()) {
    const bool is_markup = a.text().is_markup() || b.text().is_markup();
    TextBuilder out;
    for (const Value* part : {&a, &b}) {
      if (is_markup && !part->text().is_markup()) {
        out.Append(EscapeHtml(part->text()));
      } else {
        out.Append(part->text());
      }
    }
    Text text = out.Take();
    text.set_markup(is_markup);
    return evaluator.MakeText(std::move(text));
  }
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(items.size())));
  return Value::MakeList(std::move(items), a.list().is_tuple);
}

absl::StatusOr<Value> Repeated(Evaluator& evaluator, const Value& value,
                               int64_t n) {
  n = std::max<int64_t>(n, 0);
  const auto size = static_cast<int64_t>(
      value.is_string() ? value.text().size() : value.items().size());
  if (size == 0) n = 0;
  int64_t total = 0;
  if (__builtin_mul_overflow(n, size, &total)) return Overflow();
  RETURN_IF_ERROR(
      evaluator.Spend(value.is_string() ? total / kBytesPerStep : total));
  if (value.is_string()) {
    TextBuilder out;
    for (int64_t i = 0; i < n; ++i) out.Append(value.text());
    Text text = out.Take();
    text.set_markup(value.text().is_markup());
    return evaluator.MakeText(std::move(text));
  }
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(total));
  for (int64_t i = 0; i < n; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return Value::MakeList(std::move(items), value.list().is_tuple);
}

// What is at `index` of a string or a range; it counts from the end if it is
// negative.
std::optional<Value> ElementAt(const Value& object, int64_t index) {
  int64_t n = 0;
  if (object.is_string()) n = object.text().length();
  if (object.is_range()) n = object.range().n;
  if (index < 0) index += n;
  if (index < 0 || index >= n) return std::nullopt;
  if (object.is_range()) return Value(object.range().At(index));
  const Text& text = object.text();
  return Value(text.Slice(text.ByteOf(index), text.ByteOf(index + 1)));
}

// The bounds of a slice over n elements: Python's slice.indices.
struct SliceBounds {
  int64_t begin;
  int64_t end;
  int64_t step;
  int64_t n;
};

absl::StatusOr<std::optional<int64_t>> SliceIndex(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (value.is_integer()) return value.integer();
  return TypeError(
      "slice indices must be integers or None or have an __index__ method");
}

absl::StatusOr<SliceBounds> BoundsOf(int64_t n, const SliceNumbers& numbers) {
  ASSIGN_OR_RETURN(const auto stride, SliceIndex(numbers.step));
  const int64_t by = stride.value_or(1);
  if (by == 0 || by == std::numeric_limits<int64_t>::min()) {
    return absl::InvalidArgumentError("slice step cannot be zero");
  }
  const int64_t least = by < 0 ? -1 : 0;
  const int64_t most = by < 0 ? n - 1 : n;
  const auto clamp = [&](std::optional<int64_t> at, int64_t absent) {
    if (!at) return absent;
    if (*at < 0) return std::max(*at + n, least);
    return std::min(*at, most);
  };
  ASSIGN_OR_RETURN(const auto first, SliceIndex(numbers.begin));
  ASSIGN_OR_RETURN(const auto last, SliceIndex(numbers.end));
  const int64_t from = clamp(first, by < 0 ? most : least);
  const int64_t to = clamp(last, by < 0 ? least : most);
  const int64_t span = by < 0 ? from - to : to - from;
  const int64_t size = by < 0 ? -by : by;
  return SliceBounds{from, to, by, span <= 0 ? 0 : (span - 1) / size + 1};
}

absl::StatusOr<Value> SliceText(Evaluator& evaluator, const Text& text,
                                const SliceBounds& bounds) {
  if (bounds.step == 1) {
    return evaluator.MakeText(text.Slice(text.ByteOf(bounds.begin),
                                         text.ByteOf(bounds.begin + bounds.n)));
  }
  std::vector<size_t> begins;
  size_t at = 0;
  ForEachCharacter(text.bytes(), [&](absl::string_view character) {
    begins.push_back(at);
    at += character.size();
  });
  begins.push_back(at);
  RETURN_IF_ERROR(evaluator.Spend(bounds.n));
  TextBuilder out;
  for (int64_t i = 0; i < bounds.n; ++i) {
    const auto index = static_cast<size_t>(bounds.begin + i * bounds.step);
    out.Append(
        text.bytes().substr(begins[index], begins[index + 1] - begins[index]),
        text.IsTainted(begins[index]));
  }
  Text slice = out.Take();
  slice.set_markup(text.is_markup());
  return evaluator.MakeText(std::move(slice));
}

}  // namespace

absl::Status TypeError(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::Status UndefinedError(const Value& value) {
  return absl::InvalidArgumentError(value.why_undefined());
}

absl::StatusOr<bool> Equal(Evaluator& evaluator, const Value& a,
                           const Value& b) {
  RETURN_IF_ERROR(evaluator.Spend(1));
  if (a.is_string() && b.is_string()) return a.bytes() == b.bytes();
  if (a.is_number() && b.is_number()) return Exact(a) == Exact(b);
  if (a.is_undefined() && b.is_undefined()) return true;
  if ((a.is_list() && b.is_list()) || (a.is_dict() && b.is_dict())) {
    return EqualItems(evaluator, a, b);
  }
  if (a.is_range() && b.is_range()) {
    const Range& x = a.range();
    const Range& y = b.range();
    return x.n == y.n &&
           (x.n == 0 || (x.start == y.start && (x.n == 1 || x.step == y.step)));
  }
  return a.IsSame(b);
}

absl::StatusOr<bool> IsLess(Evaluator& evaluator, const Value& a,
                            const Value& b) {
  RETURN_IF_ERROR(evaluator.Spend(1));
  if (!AreOrdered(a, b)) {
    for (const Value* value : {&a, &b}) {
      if (value->is_undefined()) return UndefinedError(*value);
    }
    return TypeError(absl::StrCat("'<' not supported between instances of '",
                                  a.TypeName(), "' and '", b.TypeName(), "'"));
  }
  if (a.is_number()) return Exact(a) < Exact(b);
  if (a.is_string()) return a.bytes() < b.bytes();
  return LessLists(evaluator, a, b);
}

absl::StatusOr<bool> Compare(Evaluator& evaluator, absl::string_view sign,
                             const Value& a, const Value& b) {
  if (sign == "==") return Equal(evaluator, a, b);
  if (sign == "!=") {
    ASSIGN_OR_RETURN(const bool is_equal, Equal(evaluator, a, b));
    return !is_equal;
  }
  if (sign == "in") return Contains(evaluator, b, a);
  if (sign == "not in") {
    ASSIGN_OR_RETURN(const bool contains, Contains(evaluator, b, a));
    return !contains;
  }
  if (sign == "<") return IsLess(evaluator, a, b);
  if (sign == ">") return IsLess(evaluator, b, a);
  const bool is_up = sign == "<=";
  ASSIGN_OR_RETURN(const bool is_less,
                   is_up ? IsLess(evaluator, a, b) : IsLess(evaluator, b, a));
  if (is_less) return true;
  return Equal(evaluator, a, b);
}

absl::StatusOr<bool> Contains(Evaluator& evaluator, const Value& container,
                              const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return TypeError(
          absl::StrCat("'in <string>' requires string as left operand, not ",
                       item.TypeName()));
    }
    RETURN_IF_ERROR(evaluator.Spend(
        static_cast<int64_t>(container.text().size()) / kBytesPerStep));
    return FindBytes(container.bytes(), item.bytes(), 0).has_value();
  }
  const bool is_keys =
      container.is_view() && container.view().kind == View::Kind::kKeys;
  if (container.is_dict() || is_keys) {
    // A dict's values equal only themselves, and none has them as a key.
    const bool is_values =
        item.is_view() && item.view().kind == View::Kind::kValues;
    if (is_values) return false;
    if (!IsHashable(item)) return Unhashable(item);
    const Dict& dict = is_keys ? *container.view().dict : container.dict();
    return dict.Find(item) != nullptr;
  }
  ASSIGN_OR_RETURN(const auto items, Iterate(container));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Value> next, items->Next(evaluator));
    if (!next) return false;
    if (next->IsSame(item)) return true;
    ASSIGN_OR_RETURN(const bool is_equal, Equal(evaluator, *next, item));
    if (is_equal) return true;
  }
}

absl::StatusOr<Value> Binary(Evaluator& evaluator, absl::string_view sign,
                             const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return Arithmetic(sign, a, b);
  if (a.is_string() && sign == "%") return FormatPercent(evaluator, a, b);
  const bool are_strings = a.is_string() && b.is_string();
  const bool are_lists =
      a.is_list() && b.is_list() && a.list().is_tuple == b.list().is_tuple;
  if (sign == "+" && (are_strings || are_lists)) {
    return Joined(evaluator, a, b);
  }
  if (sign == "*") {
    if ((a.is_string() || a.is_list()) && b.is_integer()) {
      return Repeated(evaluator, a, b.integer());
    }
    if ((b.is_string() || b.is_list()) && a.is_integer()) {
      return Repeated(evaluator, b, a.integer());
    }
  }
  if (sign == "-" && (IsSetLike(a) || IsSetLike(b))) {
    return TypeError(
        "a set, which is what a dict's keys or items are without "
        "others, is not supported");
  }
  return Unsupported(sign, a, b);
}

absl::StatusOr<Value> Negate(const Value& value, absl::string_view sign) {
  if (!value.is_number()) {
    if (value.is_undefined()) return UndefinedError(value);
    return TypeError(absl::StrCat("bad operand type for unary ", sign, ": '",
                                  value.TypeName(), "'"));
  }
  if (value.is_float()) {
    return Value(sign == "-" ? -value.number() : value.number());
  }
  return sign == "-" ? Integers("-", 0, value.integer())
                     : Value(value.integer());
}

absl::StatusOr<Value> Slice(Evaluator& evaluator, const Value& object,
                            const SliceNumbers& numbers) {
  if (object.is_undefined()) return UndefinedError(object);
  if (!object.is_string() && !object.is_list() && !object.is_range()) {
    return TypeError(
        absl::StrCat("'", object.TypeName(), "' object is not subscriptable"));
  }
  ASSIGN_OR_RETURN(const int64_t n, Length(object));
  ASSIGN_OR_RETURN(const SliceBounds bounds, BoundsOf(n, numbers));
  if (object.is_string()) return SliceText(evaluator, object.text(), bounds);
  if (object.is_range()) {
    const Range& range = object.range();
    return Value(Range{range.At(bounds.begin), range.At(bounds.end),
                       range.step * bounds.step, bounds.n});
  }
  RETURN_IF_ERROR(evaluator.Spend(bounds.n));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(bounds.n));
  for (int64_t i = 0; i < bounds.n; ++i) {
    items.push_back(
        object.items()[static_cast<size_t>(bounds.begin + i * bounds.step)]);
  }
  return Value::MakeList(std::move(items), object.list().is_tuple);
}

absl::StatusOr<Value> GetMember(Evaluator& evaluator, const Value& object,
                                absl::string_view name) {
  if (object.is_undefined()) return UndefinedError(object);
  ASSIGN_OR_RETURN(std::optional<Value> member,
                   FindMember(evaluator, object, name));
  if (member) return *std::move(member);
  if (object.is_dict()) {
    const Value* item = object.dict().Find(name);
    if (item != nullptr) return *item;
  }
  return Value::MissingMember(object.TypeName(), name);
}

const Value* FindHeldItem(const Value& object, const Value& key) {
  if (object.is_dict()) {
    return IsHashable(key) ? object.dict().Find(key) : nullptr;
  }
  if (!object.is_list() || !key.is_integer()) return nullptr;
  const auto n = static_cast<int64_t>(object.items().size());
  const int64_t index = key.integer() + (key.integer() < 0 ? n : 0);
  if (index < 0 || index >= n) return nullptr;
  return &object.items()[static_cast<size_t>(index)];
}

absl::StatusOr<Value> GetItem(Evaluator& evaluator, const Value& object,
                              const Value& key) {
  if (object.is_undefined()) return UndefinedError(object);
  if (const Value* item = FindHeldItem(object, key)) return *item;
  if (key.is_integer()) {
    std::optional<Value> element = ElementAt(object, key.integer());
    if (element) return *std::move(element);
  }
  if (!key.is_string()) {
    return Value::MakeUndefined(
        absl::StrCat("'", object.TypeName(), " object' has no such element"));
  }
  ASSIGN_OR_RETURN(std::optional<Value> member,
                   FindMember(evaluator, object, key.bytes()));
  if (member) return *std::move(member);
  return Value::MissingMember(object.TypeName(), key.bytes().substr(0, 64));
}

absl::Status SortByKey(Evaluator& evaluator, std::vector<Dict::Pair>& pairs,
                       bool is_reversed) {
  absl::Status status;
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Dict::Pair& a, const Dict::Pair& b) {
                     if (!status.ok()) return false;
                     const auto is_less =
                         is_reversed ? IsLess(evaluator, b.first, a.first)
                                     : IsLess(evaluator, a.first, b.first);
                     status = is_less.status();
                     return status.ok() && *is_less;
                   });
  return status;
}

}  // namespace plimsoll::worker::jinja
