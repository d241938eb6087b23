// Keywords that combine schemas.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/expander.h"

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

}  // namespace

Expander::Result Expander::Ref(const Keyword& keyword) {
  ASSIGN_OR_RETURN(
      const SchemaJson* target,
      index_.Resolve(keyword.schema, keyword.value, keyword.name != "$ref"));
  return Make(Of(*target, keyword.is_positive), keyword.type);
}

absl::StatusOr<std::vector<const SchemaJson*>> Expander::ListOf(
    const Keyword& keyword) const {
  if (!keyword.value.is_array() || keyword.value.empty()) {
    return Error(keyword, absl::StrCat(keyword.name, " is not a list"));
  }
  if (keyword.value.size() > kMaxSchemaMembers) {
    return Error(
        keyword,
        absl::StrCat(keyword.name, " has ", keyword.value.size(),
                     " members; at most ", kMaxSchemaMembers, " are allowed"));
  }
  std::vector<const SchemaJson*> list;
  for (const SchemaJson& one : keyword.value) list.push_back(&one);
  return list;
}

Expander::Result Expander::AllOfKeyword(const Keyword& keyword) {
  ASSIGN_OR_RETURN(const auto list, ListOf(keyword));
  std::vector<FormulaPtr> parts;
  for (const SchemaJson* one : list) {
    ASSIGN_OR_RETURN(FormulaPtr part,
                     Make(Of(*one, keyword.is_positive), keyword.type));
    parts.push_back(std::move(part));
  }
  return AllOf(keyword.is_positive, std::move(parts));
}

Expander::Result Expander::AnyOfKeyword(const Keyword& keyword) {
  ASSIGN_OR_RETURN(const auto list, ListOf(keyword));
  std::vector<FormulaPtr> parts;
  for (const SchemaJson* one : list) {
    ASSIGN_OR_RETURN(FormulaPtr part,
                     Make(Of(*one, keyword.is_positive), keyword.type));
    parts.push_back(std::move(part));
  }
  return AllOf(!keyword.is_positive, std::move(parts));
}

Expander::Result Expander::OneOfKeyword(const Keyword& keyword) {
  ASSIGN_OR_RETURN(const auto list, ListOf(keyword));
  // The members that a value of this type may fit.
  std::vector<const SchemaJson*> members;
  std::vector<FormulaPtr> fits;
  for (const SchemaJson* one : list) {
    ASSIGN_OR_RETURN(FormulaPtr fit,
                     Make(Of(*one, /*is_positive=*/true), keyword.type));
    if (IsNever(fit)) continue;
    members.push_back(one);
    fits.push_back(std::move(fit));
  }
  const size_t n = members.size();
  std::vector<std::vector<bool>> apart(n, std::vector<bool>(n, true));
  std::vector<std::optional<std::set<std::string>>> values;
  for (const FormulaPtr& fit : fits) {
    ASSIGN_OR_RETURN(auto listed, ValuesOf(fit, keyword.type));
    values.push_back(std::move(listed));
  }
  size_t n_looks = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = i + 1; k < n; ++k) {
      bool is_apart = true;
      if (values[i] && values[k]) {
        is_apart = AreSetsApart(*values[i], *values[k]);
      } else if (++n_looks > kMaxPairs) {
        return Unsupported(keyword,
                           "for some hundreds of schemas only, unless "
                           "they are constants");
      } else {
        ASSIGN_OR_RETURN(is_apart, AreApart(fits[i], fits[k]));
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
          Make(Of(*members[k], /*is_positive=*/false), keyword.type));
      all.push_back(std::move(misses));
    }
    if (keyword.is_positive) cases.push_back(And(std::move(all)));
    // Not exactly one: two of them, or none.
    for (size_t k = i + 1; k < n && !keyword.is_positive; ++k) {
      if (!apart[i][k]) cases.push_back(And({fits[i], fits[k]}));
    }
  }
  if (keyword.is_positive) return Or(std::move(cases));
  ASSIGN_OR_RETURN(FormulaPtr none, NoneOf(members, keyword.type));
  cases.push_back(std::move(none));
  return Or(std::move(cases));
}

Expander::Result Expander::NoneOf(const std::vector<const SchemaJson*>& schemas,
                                  JsonType type) {
  std::vector<FormulaPtr> parts;
  for (const SchemaJson* one : schemas) {
    ASSIGN_OR_RETURN(FormulaPtr misses,
                     Make(Of(*one, /*is_positive=*/false), type));
    parts.push_back(std::move(misses));
  }
  return And(std::move(parts));
}

absl::StatusOr<std::optional<std::set<std::string>>> Expander::ValuesOf(
    const FormulaPtr& formula, JsonType type) {
  const auto shapes = Solve(formula, stop_);
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

absl::StatusOr<bool> Expander::AreApart(const FormulaPtr& a,
                                        const FormulaPtr& b) {
  auto shapes = Solve(And({a, b}), stop_);
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
        ASSIGN_OR_RETURN(const bool may_fit, MayFit(one.term, type));
        has_any = has_any || may_fit;
      }
      is_possible = has_any;
    }
    if (is_possible) return false;
  }
  return true;
}

absl::StatusOr<bool> Expander::MayFit(const Term& term, JsonType type) {
  std::vector<FormulaPtr> parts;
  for (const Literal& literal : term) {
    auto part = Make(literal, type);
    // This includes what is being made, and comes back to itself.
    if (absl::IsInvalidArgument(part.status())) return true;
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  const auto values = Solve(And(std::move(parts)), stop_);
  if (absl::IsInvalidArgument(values.status())) return true;
  if (!values.ok()) return values.status();
  return !values->empty();
}

Expander::Result Expander::NotKeyword(const Keyword& keyword) {
  return Make(Of(keyword.value, !keyword.is_positive), keyword.type);
}

Expander::Result Expander::IfKeyword(const Keyword& keyword) {
  const bool p = keyword.is_positive;
  const SchemaJson* then = Member(keyword.schema, "then");
  const SchemaJson* other = Member(keyword.schema, "else");
  if (then == nullptr && other == nullptr) return Either(p);
  ASSIGN_OR_RETURN(FormulaPtr holds,
                   Make(Of(keyword.value, /*is_positive=*/true), keyword.type));
  ASSIGN_OR_RETURN(
      FormulaPtr fails,
      Make(Of(keyword.value, /*is_positive=*/false), keyword.type));
  FormulaPtr if_holds = Either(p);
  FormulaPtr if_fails = Either(p);
  if (then != nullptr) {
    ASSIGN_OR_RETURN(if_holds, Make(Of(*then, p), keyword.type));
  }
  if (other != nullptr) {
    ASSIGN_OR_RETURN(if_fails, Make(Of(*other, p), keyword.type));
  }
  return Or({And({holds, if_holds}), And({fails, if_fails})});
}

}  // namespace plimsoll::worker
