// Keywords about types, whole values, strings and numbers.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/expander.h"
#include "worker/text/schema/formats.h"

namespace plimsoll::worker {
namespace {

struct TypeName {
  absl::string_view name;
  JsonType type;
};
constexpr TypeName kTypeNames[] = {
    {"object", JsonType::kObject}, {"array", JsonType::kArray},
    {"string", JsonType::kString}, {"number", JsonType::kNumber},
    {"null", JsonType::kNull},     {"boolean", JsonType::kBoolean},
};

}  // namespace

Expander::Result Expander::NamedType(const Keyword& keyword,
                                     const SchemaJson& name) {
  const bool p = keyword.is_positive;
  const std::string text = name.is_string() ? name.get<std::string>() : "";
  for (const TypeName& one : kTypeNames) {
    if (one.name == text) return Either((one.type == keyword.type) == p);
  }
  if (text == "integer") {
    if (keyword.type != JsonType::kNumber) return Either(!p);
    return Atom([p](Shape& shape) { return RestrictInteger(shape, p); });
  }
  if (text == "any" && index_.draft() == SchemaDraft::kDraft3) {
    return Either(p);
  }
  return Error(keyword,
               "type is not object, array, string, number, integer, boolean or "
               "null, nor a list of them");
}

Expander::Result Expander::TypeKeyword(const Keyword& keyword) {
  if (!keyword.value.is_array()) return NamedType(keyword, keyword.value);
  if (keyword.value.empty()) return Error(keyword, "type is an empty list");
  std::vector<FormulaPtr> parts;
  bool has_number = false;
  for (const SchemaJson& name : keyword.value) has_number |= name == "number";
  for (const SchemaJson& name : keyword.value) {
    // An integer is a number.
    if (has_number && name == "integer") continue;
    ASSIGN_OR_RETURN(FormulaPtr part, NamedType(keyword, name));
    parts.push_back(std::move(part));
  }
  return AllOf(!keyword.is_positive, std::move(parts));
}

Expander::Result Expander::Value(const SchemaJson& value, JsonType type,
                                 bool is_positive) {
  if (TypeOf(value) != type) return Either(!is_positive);
  switch (type) {
    case JsonType::kNull:
      return Either(is_positive);
    case JsonType::kBoolean: {
      const bool may_be = value.get<bool>() == is_positive;
      return Atom([may_be](Shape& shape) {
        (may_be ? shape.may_be_false : shape.may_be_true) = false;
        return shape.may_be_true || shape.may_be_false;
      });
    }
    case JsonType::kNumber: {
      const std::optional<Decimal> number = DecimalOf(value);
      if (!number) return Either(!is_positive);
      return Atom([number, is_positive](Shape& shape) {
        if (is_positive) return RestrictNumbers(shape, {*number});
        shape.number.excluded.push_back(*number);
        return !shape.number.values ||
               RestrictNumbers(shape, *shape.number.values);
      });
    }
    case JsonType::kString: {
      auto text = value.get<std::string>();
      return Atom([text, is_positive](Shape& shape) {
        return is_positive ? RestrictStrings(shape, {text})
                           : ExcludeString(shape, text);
      });
    }
    case JsonType::kArray:
      return ArrayValue(value, is_positive);
    case JsonType::kObject:
      return ObjectValue(value, is_positive);
  }
  return Always();
}

Expander::Result Expander::ArrayValue(const SchemaJson& value,
                                      bool is_positive) {
  const auto n = static_cast<int64_t>(value.size());
  std::vector<Term> items;
  for (const SchemaJson& one : value)
    items.push_back({{&one, /*is_value=*/true, /*is_positive=*/true}});
  if (is_positive) {
    return Atom([items, n](Shape& shape) {
      AddItems(shape, items, {});
      return RestrictItemCount(shape, n, n);
    });
  }
  std::vector<FormulaPtr> cases = {Atom([n](Shape& shape) {
    return RestrictItemCount(shape, n + 1, GrammarBuilder::kUnlimited);
  })};
  if (n > 0) {
    cases.push_back(
        Atom([n](Shape& shape) { return RestrictItemCount(shape, 0, n - 1); }));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    std::vector<Term> one(i + 1);
    one[i] = {{&value[i], /*is_value=*/true, /*is_positive=*/false}};
    cases.push_back(Atom([one, n](Shape& shape) {
      AddItems(shape, one, {});
      return RestrictItemCount(shape, n, n);
    }));
  }
  return Or(std::move(cases));
}

Expander::Result Expander::ObjectValue(const SchemaJson& value,
                                       bool is_positive) {
  static const SchemaJson* const nothing = new SchemaJson(false);
  ObjectShape::Rule rest = {.is_rest = true};
  std::vector<FormulaPtr> parts;
  for (const auto& [name, one] : value.items()) {
    rest.names.push_back(name);
    const Term term = {{&one, /*is_value=*/true, is_positive}};
    parts.push_back(Atom([name = name, term](Shape& shape) {
      return RequireMember(shape, name, term);
    }));
    if (is_positive) continue;
    parts.push_back(Atom(
        [name = name](Shape& shape) { return ForbidMember(shape, name); }));
  }
  if (is_positive) {
    rest.term = {Of(*nothing, /*is_positive=*/true)};
    parts.push_back(Atom([rest](Shape& shape) {
      shape.object.rules.push_back(rest);
      return true;
    }));
    return And(std::move(parts));
  }
  parts.push_back(Atom([rest](Shape& shape) {
    shape.object.witnesses.push_back({rest, {}});
    return true;
  }));
  return Or(std::move(parts));
}

Expander::Result Expander::ConstKeyword(const Keyword& keyword) {
  return Make({&keyword.value, /*is_value=*/true, keyword.is_positive},
              keyword.type);
}

Expander::Result Expander::EnumKeyword(const Keyword& keyword) {
  if (!keyword.value.is_array()) return Error(keyword, "enum is not a list");
  const bool p = keyword.is_positive;
  std::vector<std::string> texts;
  std::vector<Decimal> numbers;
  std::vector<FormulaPtr> parts;
  for (const SchemaJson& value : keyword.value) {
    if (TypeOf(value) != keyword.type) continue;
    if (p && value.is_string()) {
      texts.push_back(value.get<std::string>());
    } else if (p && value.is_number()) {
      if (const auto number = DecimalOf(value)) numbers.push_back(*number);
    } else {
      ASSIGN_OR_RETURN(FormulaPtr part,
                       Make({&value, /*is_value=*/true, p}, keyword.type));
      parts.push_back(std::move(part));
    }
  }
  if (!texts.empty()) {
    parts.push_back(
        Atom([texts](Shape& shape) { return RestrictStrings(shape, texts); }));
  }
  if (!numbers.empty()) {
    parts.push_back(Atom(
        [numbers](Shape& shape) { return RestrictNumbers(shape, numbers); }));
  }
  return AllOf(!p, std::move(parts));
}

Expander::Result Expander::LengthKeyword(const Keyword& keyword) {
  ASSIGN_OR_RETURN(const int64_t n, CountOf(keyword));
  const bool is_most = keyword.name == "maxLength";
  int64_t min = is_most ? 0 : n;
  int64_t max = is_most ? n : GrammarBuilder::kUnlimited;
  if (!keyword.is_positive) {
    if (!is_most && n == 0) return Never();
    min = is_most ? n + 1 : 0;
    max = is_most ? GrammarBuilder::kUnlimited : n - 1;
  }
  return Atom(
      [min, max](Shape& shape) { return RestrictLength(shape, min, max); });
}

Expander::Result Expander::PatternKeyword(const Keyword& keyword) {
  if (!keyword.value.is_string()) {
    return Error(keyword, "pattern is not a string");
  }
  auto added =
      patterns_.Add(keyword.value.get<std::string>(), RegexMatch::kAnywhere);
  if (!added.ok()) {
    if (!absl::IsInvalidArgument(added.status())) return added.status();
    return SchemaError(absl::StrCat(index_.PathOf(&keyword.schema), "/pattern"),
                       added.status().message());
  }
  std::vector<FormulaPtr> parts;
  for (PatternUse use : *added) {
    use.is_negated = use.is_negated == keyword.is_positive;
    parts.push_back(Atom([use](Shape& shape) {
      std::vector<PatternUse>& uses = shape.string.patterns;
      const auto at = std::lower_bound(uses.begin(), uses.end(), use);
      if (at == uses.end() || *at != use) uses.insert(at, use);
      return true;
    }));
  }
  return AllOf(keyword.is_positive, std::move(parts));
}

Expander::Result Expander::FormatKeyword(const Keyword& keyword) {
  const bool p = keyword.is_positive;
  if (!keyword.value.is_string()) return Error(keyword, "format is no string");
  if (options_.ignore_formats) return Either(p);
  const auto name = keyword.value.get<std::string>();
  const auto pattern = FormatPattern(name);
  if (!pattern) {
    const std::string what =
        absl::StrCat("the format '", name.substr(0, 64), "' is not known");
    if (options_.refuse_unknown) return Error(keyword, what);
    Note(keyword.schema, what);
    return Either(p);
  }
  ASSIGN_OR_RETURN(const auto uses,
                   patterns_.Add(*pattern, RegexMatch::kWhole));
  std::vector<FormulaPtr> parts;
  for (PatternUse use : uses) {
    use.is_negated = use.is_negated == p;
    parts.push_back(Atom([use](Shape& shape) {
      std::vector<PatternUse>& known = shape.string.patterns;
      const auto at = std::lower_bound(known.begin(), known.end(), use);
      if (at == known.end() || *at != use) known.insert(at, use);
      return true;
    }));
  }
  return AllOf(p, std::move(parts));
}

Expander::Result Expander::BoundKeyword(const Keyword& keyword) {
  const bool is_least = absl::EndsWithIgnoreCase(keyword.name, "minimum");
  const bool is_exclusive = absl::StartsWith(keyword.name, "exclusive");
  // Up to draft 4, exclusiveMinimum says how minimum is meant.
  if (is_exclusive && keyword.value.is_boolean()) {
    return Either(keyword.is_positive);
  }
  ASSIGN_OR_RETURN(const Decimal number, NumberOf(keyword));
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

Expander::Result Expander::MultipleKeyword(const Keyword& keyword) {
  ASSIGN_OR_RETURN(const Decimal number, NumberOf(keyword));
  if (number.is_zero() || number.is_negative) {
    return Error(keyword, absl::StrCat(keyword.name, " is not above 0"));
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

}  // namespace plimsoll::worker
