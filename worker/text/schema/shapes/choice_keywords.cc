#include "worker/text/schema/shapes/choice_keywords.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/shapes/expander.h"

namespace plimsoll::worker {
namespace {

// The most pairs of one oneOf that are looked at.
constexpr size_t kMaxPairs = 20'000;

bool AreSetsApart(const std::set<std::string>& a,
                  const std::set<std::string>& b) {
  const auto& fewer = a.size() < b.size() ? a : b;
  const auto& more = a.size() < b.size() ? b : a;
  return std::none_of(fewer.begin(), fewer.end(), [&](const std::string& one) {
    return more.contains(one);
  });
}

FormulaResult Ref(const Keyword& keyword, Expander& expander) {
  ASSIGN_OR_RETURN(const SchemaJson* target,
                   expander.index().Resolve(keyword.schema, keyword.value,
                                            keyword.name != "$ref"));
  return expander.Make(FitsSchema(*target, keyword.is_positive), keyword.type);
}

absl::StatusOr<std::vector<const SchemaJson*>> ListOf(const Keyword& keyword) {
  if (!keyword.value.is_array() || keyword.value.empty()) {
    return keyword.Error(absl::StrCat(keyword.name, " is not a list"));
  }
  if (keyword.value.size() > kMaxSchemaMembers) {
    return keyword.Error(
        absl::StrCat(keyword.name, " has ", keyword.value.size(),
                     " members; at most ", kMaxSchemaMembers, " are allowed"));
  }
  std::vector<const SchemaJson*> list;
  for (const SchemaJson& one : keyword.value) list.push_back(&one);
  return list;
}

FormulaResult AllOfKeyword(const Keyword& keyword, Expander& expander) {
  ASSIGN_OR_RETURN(const auto list, ListOf(keyword));
  std::vector<FormulaPtr> parts;
  for (const SchemaJson* one : list) {
    ASSIGN_OR_RETURN(
        FormulaPtr part,
        expander.Make(FitsSchema(*one, keyword.is_positive), keyword.type));
    parts.push_back(std::move(part));
  }
  return AllOf(keyword.is_positive, std::move(parts));
}

FormulaResult AnyOfKeyword(const Keyword& keyword, Expander& expander) {
  ASSIGN_OR_RETURN(const auto list, ListOf(keyword));
  std::vector<FormulaPtr> parts;
  for (const SchemaJson* one : list) {
    ASSIGN_OR_RETURN(
        FormulaPtr part,
        expander.Make(FitsSchema(*one, keyword.is_positive), keyword.type));
    parts.push_back(std::move(part));
  }
  return AllOf(!keyword.is_positive, std::move(parts));
}

// Holds for a value of `type` that fits none of `schemas`.
FormulaResult NoneOf(const std::vector<const SchemaJson*>& schemas,
                     JsonType type, Expander& expander) {
  std::vector<FormulaPtr> parts;
  for (const SchemaJson* one : schemas) {
    ASSIGN_OR_RETURN(
        FormulaPtr misses,
        expander.Make(FitsSchema(*one, /*is_positive=*/false), type));
    parts.push_back(std::move(misses));
  }
  return And(std::move(parts));
}

// The strings or numbers that fit, if they are listed.
absl::StatusOr<std::optional<std::set<std::string>>> ValuesOf(
    const FormulaPtr& formula, JsonType type, Expander& expander) {
  const auto shapes = expander.ShapesOf(formula);
  if (!shapes.ok()) {
    if (absl::IsInvalidArgument(shapes.status())) return std::nullopt;
    return shapes.status();
  }
  std::set<std::string> values;
  for (const Shape& shape : *shapes) {
    if (type == JsonType::kString && shape.string.values) {
      values.insert(shape.string.values->begin(), shape.string.values->end());
    } else if (type == JsonType::kNumber && shape.number.values) {
      for (const Decimal& one : *shape.number.values) {
        values.insert(absl::StrCat(one.is_negative ? "-" : "", one.digits, "e",
                                   one.exponent));
      }
    } else {
      return std::nullopt;
    }
  }
  return values;
}

// Whether a value of a member may fit. True if this is not easy to decide.
absl::StatusOr<bool> MayFit(const Term& term, JsonType type,
                            Expander& expander) {
  std::vector<FormulaPtr> parts;
  for (const Literal& literal : term) {
    auto part = expander.Make(literal, type);
    // This includes what is being made, and comes back to itself.
    if (absl::IsInvalidArgument(part.status())) return true;
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  const auto values = expander.ShapesOf(And(std::move(parts)));
  if (absl::IsInvalidArgument(values.status())) return true;
  if (!values.ok()) return values.status();
  return !values->empty();
}

// Whether no value fits both. False if this is not easy to decide.
absl::StatusOr<bool> AreApart(const FormulaPtr& a, const FormulaPtr& b,
                              Expander& expander) {
  auto shapes = expander.ShapesOf(And({a, b}));
  if (!shapes.ok()) {
    if (absl::IsInvalidArgument(shapes.status())) return false;
    return shapes.status();
  }
  for (const Shape& shape : *shapes) {
    // A required member that no value fits makes a shape impossible.
    bool is_possible = true;
    for (const ObjectShape::Named& one : shape.object.named) {
      if (!one.is_required || one.term.empty() || !is_possible) continue;
      bool has_any = false;
      for (const JsonType type : kJsonTypes) {
        ASSIGN_OR_RETURN(const bool may_fit, MayFit(one.term, type, expander));
        has_any = has_any || may_fit;
      }
      is_possible = has_any;
    }
    if (is_possible) return false;
  }
  return true;
}

FormulaResult OneOfKeyword(const Keyword& keyword, Expander& expander) {
  ASSIGN_OR_RETURN(const auto list, ListOf(keyword));
  // The members that a value of this type may fit.
  std::vector<const SchemaJson*> members;
  std::vector<FormulaPtr> fits;
  for (const SchemaJson* one : list) {
    ASSIGN_OR_RETURN(
        FormulaPtr fit,
        expander.Make(FitsSchema(*one, /*is_positive=*/true), keyword.type));
    if (IsNever(fit)) continue;
    members.push_back(one);
    fits.push_back(std::move(fit));
  }
  const size_t n = members.size();
  std::vector<std::vector<bool>> apart(n, std::vector<bool>(n, true));
  std::vector<std::optional<std::set<std::string>>> values;
  for (const FormulaPtr& fit : fits) {
    ASSIGN_OR_RETURN(auto listed, ValuesOf(fit, keyword.type, expander));
    values.push_back(std::move(listed));
  }
  size_t n_looks = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = i + 1; k < n; ++k) {
      bool is_apart = true;
      if (values[i] && values[k]) {
        is_apart = AreSetsApart(*values[i], *values[k]);
      } else if (++n_looks > kMaxPairs) {
        return keyword.Unsupported(
            "for some hundreds of schemas only, unless "
            "they are constants");
      } else {
        ASSIGN_OR_RETURN(is_apart, AreApart(fits[i], fits[k], expander));
      }
      apart[i][k] = is_apart;
      apart[k][i] = is_apart;
    }
  }
  std::vector<FormulaPtr> cases;
  for (size_t i = 0; i < n; ++i) {
    std::vector<FormulaPtr> all = {fits[i]};
    for (size_t k = 0; k < n; ++k) {
      if (apart[i][k]) continue;
      ASSIGN_OR_RETURN(
          FormulaPtr misses,
          expander.Make(FitsSchema(*members[k], /*is_positive=*/false),
                        keyword.type));
      all.push_back(std::move(misses));
    }
    if (keyword.is_positive) cases.push_back(And(std::move(all)));
    // Not exactly one: two of them, or none.
    for (size_t k = i + 1; k < n && !keyword.is_positive; ++k) {
      if (!apart[i][k]) cases.push_back(And({fits[i], fits[k]}));
    }
  }
  if (keyword.is_positive) return Or(std::move(cases));
  ASSIGN_OR_RETURN(FormulaPtr none, NoneOf(members, keyword.type, expander));
  cases.push_back(std::move(none));
  return Or(std::move(cases));
}

FormulaResult NotKeyword(const Keyword& keyword, Expander& expander) {
  return expander.Make(FitsSchema(keyword.value, !keyword.is_positive),
                       keyword.type);
}

FormulaResult IfKeyword(const Keyword& keyword, Expander& expander) {
  const bool p = keyword.is_positive;
  const SchemaJson* then = Member(keyword.schema, "then");
  const SchemaJson* other = Member(keyword.schema, "else");
  if (then == nullptr && other == nullptr) return Either(p);
  ASSIGN_OR_RETURN(
      FormulaPtr holds,
      expander.Make(FitsSchema(keyword.value, /*is_positive=*/true),
                    keyword.type));
  ASSIGN_OR_RETURN(
      FormulaPtr fails,
      expander.Make(FitsSchema(keyword.value, /*is_positive=*/false),
                    keyword.type));
  FormulaPtr if_holds = Either(p);
  FormulaPtr if_fails = Either(p);
  if (then != nullptr) {
    ASSIGN_OR_RETURN(if_holds,
                     expander.Make(FitsSchema(*then, p), keyword.type));
  }
  if (other != nullptr) {
    ASSIGN_OR_RETURN(if_fails,
                     expander.Make(FitsSchema(*other, p), keyword.type));
  }
  return Or({And({holds, if_holds}), And({fails, if_fails})});
}

constexpr KeywordRule kChoiceKeywords[] = {
    {"$ref", {}, Ref},           {"$dynamicRef", {}, Ref},
    {"$recursiveRef", {}, Ref},  {"allOf", {}, AllOfKeyword},
    {"anyOf", {}, AnyOfKeyword}, {"oneOf", {}, OneOfKeyword},
    {"not", {}, NotKeyword},     {"if", {}, IfKeyword},
};

}  // namespace

const KeywordRule* FindChoiceKeyword(absl::string_view name) {
  return FindRule(kChoiceKeywords, name);
}

}  // namespace plimsoll::worker
