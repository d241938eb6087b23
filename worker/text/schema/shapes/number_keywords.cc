#include "worker/text/schema/shapes/number_keywords.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/shapes/expander.h"

namespace plimsoll::worker {
namespace {

FormulaResult BoundKeyword(const Keyword& keyword, Expander&) {
  const bool is_least = absl::EndsWithIgnoreCase(keyword.name, "minimum");
  const bool is_exclusive = absl::StartsWith(keyword.name, "exclusive");
  // Up to draft 4, exclusiveMinimum says how minimum is meant.
  if (is_exclusive && keyword.value.is_boolean()) {
    return Either(keyword.is_positive);
  }
  ASSIGN_OR_RETURN(const Decimal number, keyword.Number());
  const SchemaJson* flag = Member(
      keyword.schema, is_least ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool is_flagged = flag != nullptr && *flag == true;
  NumberBound bound = {number, is_exclusive || is_flagged};
  if (keyword.is_positive != is_least) {
    bound.is_open = bound.is_open == keyword.is_positive;
    return Atom(
        [bound](Shape& shape) { return RestrictGreatest(shape, bound); });
  }
  bound.is_open = bound.is_open == keyword.is_positive;
  return Atom([bound](Shape& shape) { return RestrictLeast(shape, bound); });
}

FormulaResult MultipleKeyword(const Keyword& keyword, Expander&) {
  ASSIGN_OR_RETURN(const Decimal number, keyword.Number());
  if (number.is_zero() || number.is_negative) {
    return keyword.Error(absl::StrCat(keyword.name, " is not above 0"));
  }
  const NumberShape::Multiple one = {number, !keyword.is_positive};
  return Atom([one](Shape& shape) {
    auto& known = shape.number.multiples;
    if (std::find(known.begin(), known.end(), one) == known.end()) {
      known.push_back(one);
    }
    return !shape.number.values || RestrictNumbers(shape, *shape.number.values);
  });
}

constexpr KeywordRule kNumberKeywords[] = {
    {"minimum", JsonType::kNumber, BoundKeyword},
    {"maximum", JsonType::kNumber, BoundKeyword},
    {"exclusiveMinimum", JsonType::kNumber, BoundKeyword},
    {"exclusiveMaximum", JsonType::kNumber, BoundKeyword},
    {"multipleOf", JsonType::kNumber, MultipleKeyword},
    {"divisibleBy", JsonType::kNumber, MultipleKeyword},
};

}  // namespace

const KeywordRule* FindNumberKeyword(absl::string_view name) {
  return FindRule(kNumberKeywords, name);
}

}  // namespace plimsoll::worker
