#include "worker/text/schema/shapes/shape.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::worker {
namespace {

// Whether numbers within the bounds are possible.
bool HasRoom(const NumberShape& number) {
  if (!number.least || !number.greatest) return true;
  const int order = Compare(number.least->value, number.greatest->value);
  if (order != 0) return order < 0;
  return !number.least->is_open && !number.greatest->is_open;
}

// Removes listed values that are not allowed. Returns false if none is left.
bool FilterValues(NumberShape& number) {
  if (!HasRoom(number)) return false;
  if (!number.values) return true;
  std::erase_if(*number.values,
                [&](const Decimal& one) { return !Allows(number, one); });
  return !number.values->empty();
}

bool FilterValues(StringShape& string) {
  if (string.min > string.max) return false;
  if (!string.values) return true;
  std::erase_if(*string.values, [&](const std::string& one) {
    const auto length = std::count_if(one.begin(), one.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    });
    return length < string.min || length > string.max ||
           std::binary_search(string.excluded.begin(), string.excluded.end(),
                              one);
  });
  return !string.values->empty();
}

bool IsMultiple(const Decimal& number, const Decimal& of) {
  if (number.is_zero()) return true;
  // Both times the same power of ten are whole.
  Decimal whole = number;
  Decimal divisor = of;
  const int64_t shift = std::min(number.exponent, of.exponent);
  whole.exponent -= shift;
  divisor.exponent -= shift;
  if (divisor.whole_digits() > 9) return Compare(number, of) == 0;
  int64_t size = 0;
  for (int64_t place = divisor.whole_digits() - 1; place >= 0; --place) {
    size = size * 10 + (divisor.DigitAt(place) - '0');
  }
  return Remainder(whole, size) == 0;
}

}  // namespace

void AddTo(Term& term, const Literal& literal) {
  const auto at = std::lower_bound(term.begin(), term.end(), literal);
  if (at == term.end() || *at != literal) term.insert(at, literal);
}

void AddTo(Term& term, const Term& other) {
  for (const Literal& one : other) AddTo(term, one);
}

bool Allows(const NumberShape& shape, const Decimal& number) {
  if (shape.is_integer && *shape.is_integer != number.is_integer()) {
    return false;
  }
  if (shape.least) {
    const int order = Compare(number, shape.least->value);
    if (order < 0 || (order == 0 && shape.least->is_open)) return false;
  }
  if (shape.greatest) {
    const int order = Compare(number, shape.greatest->value);
    if (order > 0 || (order == 0 && shape.greatest->is_open)) return false;
  }
  for (const NumberShape::Multiple& one : shape.multiples) {
    if (IsMultiple(number, one.of) == one.is_negated) return false;
  }
  return std::find(shape.excluded.begin(), shape.excluded.end(), number) ==
         shape.excluded.end();
}

ObjectShape::Named& ObjectShape::At(const std::string& name) {
  const auto [found, is_new] = numbers.try_emplace(name, named.size());
  if (is_new) named.push_back({.name = name});
  return named[found->second];
}

bool RestrictStrings(Shape& shape, const std::vector<std::string>& values) {
  std::vector<std::string> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::optional<std::vector<std::string>>& known = shape.string.values;
  if (known) {
    std::vector<std::string> both;
    std::set_intersection(known->begin(), known->end(), sorted.begin(),
                          sorted.end(), std::back_inserter(both));
    known = std::move(both);
  } else {
    known = std::move(sorted);
  }
  return FilterValues(shape.string);
}

bool ExcludeString(Shape& shape, const std::string& value) {
  auto& excluded = shape.string.excluded;
  const auto at = std::lower_bound(excluded.begin(), excluded.end(), value);
  if (at == excluded.end() || *at != value) excluded.insert(at, value);
  return FilterValues(shape.string);
}

bool RestrictLength(Shape& shape, int64_t min, int64_t max) {
  shape.string.min = std::max(shape.string.min, min);
  shape.string.max = std::min(shape.string.max, max);
  return FilterValues(shape.string);
}

bool RestrictNumbers(Shape& shape, const std::vector<Decimal>& values) {
  std::optional<std::vector<Decimal>>& known = shape.number.values;
  std::vector<Decimal> both;
  for (const Decimal& one : values) {
    const bool is_known =
        !known || std::find(known->begin(), known->end(), one) != known->end();
    const bool is_new = std::find(both.begin(), both.end(), one) == both.end();
    if (is_known && is_new) both.push_back(one);
  }
  known = std::move(both);
  return FilterValues(shape.number);
}

bool RestrictLeast(Shape& shape, const NumberBound& bound) {
  std::optional<NumberBound>& known = shape.number.least;
  const int order = known ? Compare(bound.value, known->value) : 1;
  if (order > 0 || (order == 0 && bound.is_open)) known = bound;
  return FilterValues(shape.number);
}

bool RestrictGreatest(Shape& shape, const NumberBound& bound) {
  std::optional<NumberBound>& known = shape.number.greatest;
  const int order = known ? Compare(bound.value, known->value) : -1;
  if (order < 0 || (order == 0 && bound.is_open)) known = bound;
  return FilterValues(shape.number);
}

bool RestrictInteger(Shape& shape, bool is_integer) {
  std::optional<bool>& known = shape.number.is_integer;
  if (known && *known != is_integer) return false;
  known = is_integer;
  return FilterValues(shape.number);
}

bool RestrictItemCount(Shape& shape, int64_t min, int64_t max) {
  shape.array.min = std::max(shape.array.min, min);
  shape.array.max = std::min(shape.array.max, max);
  return shape.array.min <= shape.array.max;
}

bool RestrictMemberCount(Shape& shape, int64_t min, int64_t max) {
  shape.object.min = std::max(shape.object.min, min);
  shape.object.max = std::min(shape.object.max, max);
  return shape.object.min <= shape.object.max;
}

bool RequireMember(Shape& shape, const std::string& name, const Term& term) {
  ObjectShape::Named& one = shape.object.At(name);
  AddTo(one.term, term);
  one.is_required = true;
  return !one.is_forbidden;
}

bool ForbidMember(Shape& shape, const std::string& name) {
  ObjectShape::Named& one = shape.object.At(name);
  one.is_forbidden = true;
  return !one.is_required;
}

void AddItems(Shape& shape, const std::vector<Term>& prefix, const Term& rest) {
  std::vector<Term>& known = shape.array.prefix;
  while (known.size() < prefix.size()) known.push_back(shape.array.rest);
  for (size_t i = 0; i < known.size(); ++i) {
    AddTo(known[i], i < prefix.size() ? prefix[i] : rest);
  }
  AddTo(shape.array.rest, rest);
}

}  // namespace plimsoll::worker
