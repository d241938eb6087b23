#include "worker/text/schema/expander.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {
namespace {

// These keywords say nothing about what is valid.
constexpr absl::string_view kAnnotations[] = {
    "title",       "description",   "default",          "examples",
    "$comment",    "readOnly",      "writeOnly",        "deprecated",
    "$defs",       "definitions",   "$schema",          "$id",
    "id",          "$anchor",       "$dynamicAnchor",   "$recursiveAnchor",
    "$vocabulary", "contentSchema", "contentMediaType", "contentEncoding",
    "then",        "else",          "minContains",      "maxContains",
};
// Schemas that lead to one another in place; the recursion is as deep.
constexpr size_t kMaxInPlace = 256;

template <typename List>
bool IsIn(const List& list, absl::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

const Expander::Rule* Expander::FindRule(absl::string_view name) {
  using E = Expander;
  constexpr auto kObject = JsonType::kObject;
  constexpr auto kArray = JsonType::kArray;
  constexpr auto kString = JsonType::kString;
  constexpr auto kNumber = JsonType::kNumber;
  static constexpr Rule kRules[] = {
      {"$ref", {}, &E::Ref},
      {"$dynamicRef", {}, &E::Ref},
      {"$recursiveRef", {}, &E::Ref},
      {"type", {}, &E::TypeKeyword},
      {"const", {}, &E::ConstKeyword},
      {"enum", {}, &E::EnumKeyword},
      {"allOf", {}, &E::AllOfKeyword},
      {"anyOf", {}, &E::AnyOfKeyword},
      {"oneOf", {}, &E::OneOfKeyword},
      {"not", {}, &E::NotKeyword},
      {"if", {}, &E::IfKeyword},
      {"minLength", kString, &E::LengthKeyword},
      {"maxLength", kString, &E::LengthKeyword},
      {"pattern", kString, &E::PatternKeyword},
      {"format", kString, &E::FormatKeyword},
      {"minimum", kNumber, &E::BoundKeyword},
      {"maximum", kNumber, &E::BoundKeyword},
      {"exclusiveMinimum", kNumber, &E::BoundKeyword},
      {"exclusiveMaximum", kNumber, &E::BoundKeyword},
      {"multipleOf", kNumber, &E::MultipleKeyword},
      {"divisibleBy", kNumber, &E::MultipleKeyword},
      {"items", kArray, &E::ItemsKeyword},
      {"prefixItems", kArray, &E::PrefixKeyword},
      {"additionalItems", kArray, &E::AdditionalItemsKeyword},
      {"unevaluatedItems", kArray, &E::UnevaluatedItemsKeyword},
      {"contains", kArray, &E::ContainsKeyword},
      {"minItems", kArray, &E::ItemCountKeyword},
      {"maxItems", kArray, &E::ItemCountKeyword},
      {"uniqueItems", kArray, &E::UniqueKeyword},
      {"properties", kObject, &E::PropertiesKeyword},
      {"patternProperties", kObject, &E::PatternPropertiesKeyword},
      {"additionalProperties", kObject, &E::AdditionalKeyword},
      {"unevaluatedProperties", kObject, &E::UnevaluatedKeyword},
      {"required", kObject, &E::RequiredKeyword},
      {"propertyNames", kObject, &E::NamesKeyword},
      {"minProperties", kObject, &E::MemberCountKeyword},
      {"maxProperties", kObject, &E::MemberCountKeyword},
      {"dependencies", kObject, &E::DependenciesKeyword},
      {"dependentRequired", kObject, &E::DependenciesKeyword},
      {"dependentSchemas", kObject, &E::DependenciesKeyword},
  };
  for (const Rule& rule : kRules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

absl::StatusOr<std::vector<Shape>> Expander::Expand(const Term& term,
                                                    JsonType type) {
  std::vector<FormulaPtr> parts;
  for (const Literal& literal : term) {
    ASSIGN_OR_RETURN(FormulaPtr part, Make(literal, type));
    parts.push_back(std::move(part));
  }
  auto shapes = Solve(And(std::move(parts)), stop_);
  if (shapes.ok() || !absl::IsInvalidArgument(shapes.status())) return shapes;
  return SchemaError(index_.PathOf(term.empty() ? nullptr : term[0].json),
                     shapes.status().message());
}

absl::StatusOr<bool> Expander::FitsString(const Term& term,
                                          const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<Shape> shapes, Expand(term, JsonType::kString));
  for (Shape& shape : shapes) {
    if (!RestrictStrings(shape, {text})) continue;
    auto matches = patterns_.Matches(shape.string.patterns, text);
    if (!matches.ok() || *matches) return matches;
  }
  return false;
}

Expander::Result Expander::Make(const Literal& literal, JsonType type) {
  const std::pair<Literal, JsonType> key(literal, type);
  if (const auto known = made_.find(key); known != made_.end()) {
    return known->second;
  }
  RETURN_IF_ERROR(stop_.Spend(16));
  if (open_.size() >= kMaxInPlace) {
    return SchemaError(index_.PathOf(literal.json),
                       absl::StrCat("more than ", kMaxInPlace,
                                    " schemas apply to one value through one "
                                    "another"));
  }
  if (!open_.insert(key).second) {
    const std::string path = index_.PathOf(literal.json);
    return SchemaError(
        path,
        absl::StrCat("'", path, "' can never end: it begins with itself"));
  }
  Result made = literal.is_value
                    ? Value(*literal.json, type, literal.is_positive)
                    : MakeSchema(*literal.json, type, literal.is_positive);
  open_.erase(key);
  if (made.ok()) made_[key] = *made;
  return made;
}

Expander::Result Expander::MakeSchema(const SchemaJson& schema, JsonType type,
                                      bool is_positive) {
  if (schema.is_boolean()) return Either(schema.get<bool>() == is_positive);
  if (!schema.is_object()) {
    return SchemaError(index_.PathOf(&schema),
                       "a schema is an object, true or false");
  }
  const bool is_ref_alone =
      index_.RefStandsAlone() && Member(schema, "$ref") != nullptr;
  std::vector<FormulaPtr> parts;
  for (const auto& [name, value] : schema.items()) {
    if (is_ref_alone && name != "$ref") continue;
    ASSIGN_OR_RETURN(FormulaPtr part,
                     MakeKeyword({schema, value, name, type, is_positive}));
    parts.push_back(std::move(part));
  }
  return AllOf(is_positive, std::move(parts));
}

Expander::Result Expander::MakeKeyword(const Keyword& keyword) {
  const Rule* rule = FindRule(keyword.name);
  if (rule == nullptr) return Unknown(keyword);
  // A keyword about another type holds.
  if (rule->type && *rule->type != keyword.type) {
    return Either(keyword.is_positive);
  }
  return (this->*rule->make)(keyword);
}

Expander::Result Expander::Unknown(const Keyword& keyword) {
  if (index_.draft() == SchemaDraft::kDraft3 &&
      (keyword.name == "extends" || keyword.name == "disallow")) {
    return Error(keyword, absl::StrCat("the keyword '", keyword.name,
                                       "' is not supported"));
  }
  if (!IsIn(kAnnotations, keyword.name)) {
    const std::string what = absl::StrCat(
        "the keyword '", keyword.name.substr(0, 64), "' is not known");
    if (options_.refuse_unknown) return Error(keyword, what);
    Note(keyword.schema, what);
  }
  return Either(keyword.is_positive);
}

void Expander::Note(const SchemaJson& schema, absl::string_view what) {
  if (notes_.size() >= kMaxSchemaNotes) return;
  std::string note = absl::StrCat(index_.PathOf(&schema), ": ", what,
                                  "; it says nothing about the reply");
  if (noted_.insert(note).second) notes_.push_back(std::move(note));
}

absl::Status Expander::Error(const Keyword& keyword,
                             absl::string_view what) const {
  return SchemaError(index_.PathOf(&keyword.schema), what);
}

absl::Status Expander::Unsupported(const Keyword& keyword,
                                   absl::string_view what) const {
  return Error(keyword, absl::StrCat("the keyword '", keyword.name,
                                     "' is supported ", what));
}

absl::StatusOr<Decimal> Expander::NumberOf(const Keyword& keyword) const {
  const std::optional<Decimal> number = DecimalOf(keyword.value);
  if (number) return *number;
  return Error(keyword, absl::StrCat(keyword.name, " is not a number"));
}

absl::StatusOr<int64_t> Expander::CountOf(const Keyword& keyword) const {
  const std::optional<Decimal> number = DecimalOf(keyword.value);
  if (number && number->is_integer() && !number->is_negative &&
      number->whole_digits() <= 9) {
    int64_t count = 0;
    for (int64_t i = number->whole_digits() - 1; i >= 0; --i) {
      count = count * 10 + (number->DigitAt(i) - '0');
    }
    const bool is_most = absl::StartsWith(keyword.name, "max");
    if (count <= Grammar::kMaxRepeat) return count;
    // So many are more than a reply can have.
    if (is_most && keyword.is_positive) return GrammarBuilder::kUnlimited;
  }
  return Error(keyword, absl::StrCat(keyword.name, " is not a count from 0 to ",
                                     Grammar::kMaxRepeat));
}

absl::StatusOr<std::vector<std::string>> Expander::NamesIn(
    const Keyword& keyword, const SchemaJson& list) {
  if (!list.is_array()) {
    return Error(keyword, absl::StrCat(keyword.name, " is not a list"));
  }
  std::vector<std::string> names;
  for (const SchemaJson& name : list) {
    if (!name.is_string()) {
      return Error(keyword,
                   absl::StrCat(keyword.name, " is not a list of names"));
    }
    names.push_back(name.get<std::string>());
    if (names.back().size() > kMaxPropertyBytes) {
      return Error(keyword,
                   absl::StrCat("the name of a property has more than ",
                                kMaxPropertyBytes, " bytes"));
    }
  }
  return names;
}

JsonType TypeOf(const SchemaJson& value) {
  if (value.is_null()) return JsonType::kNull;
  if (value.is_boolean()) return JsonType::kBoolean;
  if (value.is_number()) return JsonType::kNumber;
  if (value.is_string()) return JsonType::kString;
  return value.is_array() ? JsonType::kArray : JsonType::kObject;
}

std::optional<Decimal> DecimalOf(const SchemaJson& value) {
  if (!value.is_number()) return std::nullopt;
  return ParseDecimal(value.dump());
}

std::string QuotedJson(const std::string& text) {
  return SchemaJson(text).dump(-1, ' ', false,
                               SchemaJson::error_handler_t::replace);
}

}  // namespace plimsoll::worker
