#include "worker/text/schema/shapes/value_keywords.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "worker/text/schema/shapes/expander.h"

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

// The type of a value.
JsonType TypeOf(const SchemaJson& value) {
  if (value.is_null()) return JsonType::kNull;
  if (value.is_boolean()) return JsonType::kBoolean;
  if (value.is_number()) return JsonType::kNumber;
  if (value.is_string()) return JsonType::kString;
  return value.is_array() ? JsonType::kArray : JsonType::kObject;
}

FormulaResult NamedType(const Keyword& keyword, const SchemaJson& name) {
  const bool p = keyword.is_positive;
  const std::string text = name.is_string() ? name.get<std::string>() : "";
  for (const TypeName& one : kTypeNames) {
    if (one.name == text) return Either((one.type == keyword.type) == p);
  }
  if (text == "integer") {
    if (keyword.type != JsonType::kNumber) return Either(!p);
    return Atom([p](Shape& shape) { return RestrictInteger(shape, p); });
  }
  if (text == "any" && keyword.index.draft() == SchemaDraft::kDraft3) {
    return Either(p);
  }
  return keyword.Error(
      "type is not object, array, string, number, integer, boolean or "
      "null, nor a list of them");
}

FormulaResult TypeKeyword(const Keyword& keyword, Expander&) {
  if (!keyword.value.is_array()) return NamedType(keyword, keyword.value);
  if (keyword.value.empty()) return keyword.Error("type is an empty list");
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

FormulaResult ConstKeyword(const Keyword& keyword, Expander& expander) {
  return expander.Make({&keyword.value, /*is_value=*/true, keyword.is_positive},
                       keyword.type);
}

FormulaResult EnumKeyword(const Keyword& keyword, Expander& expander) {
  if (!keyword.value.is_array()) return keyword.Error("enum is not a list");
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
      ASSIGN_OR_RETURN(
          FormulaPtr part,
          expander.Make({&value, /*is_value=*/true, p}, keyword.type));
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

FormulaResult ArrayValue(const SchemaJson& value, bool is_positive) {
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

FormulaResult ObjectValue(const SchemaJson& value, bool is_positive) {
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
    rest.term = {FitsSchema(*nothing, /*is_positive=*/true)};
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

constexpr KeywordRule kValueKeywords[] = {
    {"type", {}, TypeKeyword},
    {"const", {}, ConstKeyword},
    {"enum", {}, EnumKeyword},
};

}  // namespace

FormulaResult ValueFormula(const SchemaJson& value, JsonType type,
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

const KeywordRule* FindValueKeyword(absl::string_view name) {
  return FindRule(kValueKeywords, name);
}

}  // namespace plimsoll::worker
