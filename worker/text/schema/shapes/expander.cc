#include "worker/text/schema/shapes/expander.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/shapes/array_keywords.h"
#include "worker/text/schema/shapes/choice_keywords.h"
#include "worker/text/schema/shapes/number_keywords.h"
#include "worker/text/schema/shapes/object_keywords.h"
#include "worker/text/schema/shapes/string_keywords.h"
#include "worker/text/schema/shapes/value_keywords.h"

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

// The rule of a keyword that is known, or null.
const KeywordRule* FindKeyword(absl::string_view name) {
  for (const auto find :
       {FindChoiceKeyword, FindValueKeyword, FindStringKeyword,
        FindNumberKeyword, FindArrayKeyword, FindObjectKeyword}) {
    if (const KeywordRule* rule = find(name)) return rule;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<Shape>> Expander::Expand(const Term& term,
                                                    JsonType type) {
  std::vector<FormulaPtr> parts;
  for (const Literal& literal : term) {
    ASSIGN_OR_RETURN(FormulaPtr part, Make(literal, type));
    parts.push_back(std::move(part));
  }
  auto shapes = ShapesOf(And(std::move(parts)));
  if (shapes.ok() || !absl::IsInvalidArgument(shapes.status())) return shapes;
  return SchemaError(index_.PathOf(term.empty() ? nullptr : term[0].json),
                     shapes.status().message());
}

absl::StatusOr<std::vector<Shape>> Expander::ShapesOf(
    const FormulaPtr& formula) {
  return Solve(formula, stop_);
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

FormulaResult Expander::Make(const Literal& literal, JsonType type) {
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
  FormulaResult made =
      literal.is_value ? ValueFormula(*literal.json, type, literal.is_positive)
                       : MakeSchema(*literal.json, type, literal.is_positive);
  open_.erase(key);
  if (made.ok()) made_[key] = *made;
  return made;
}

FormulaResult Expander::MakeSchema(const SchemaJson& schema, JsonType type,
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
    ASSIGN_OR_RETURN(FormulaPtr part, MakeKeyword({index_, schema, value, name,
                                                   type, is_positive}));
    parts.push_back(std::move(part));
  }
  return AllOf(is_positive, std::move(parts));
}

FormulaResult Expander::MakeKeyword(const Keyword& keyword) {
  const KeywordRule* rule = FindKeyword(keyword.name);
  if (rule == nullptr) return Unknown(keyword);
  // A keyword about another type holds.
  if (rule->type && *rule->type != keyword.type) {
    return Either(keyword.is_positive);
  }
  return rule->make(keyword, *this);
}

FormulaResult Expander::Unknown(const Keyword& keyword) {
  if (index_.draft() == SchemaDraft::kDraft3 &&
      (keyword.name == "extends" || keyword.name == "disallow")) {
    return keyword.Error(
        absl::StrCat("the keyword '", keyword.name, "' is not supported"));
  }
  if (!IsIn(kAnnotations, keyword.name)) {
    const std::string what = absl::StrCat(
        "the keyword '", keyword.name.substr(0, 64), "' is not known");
    if (options_.refuse_unknown) return keyword.Error(what);
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

}  // namespace plimsoll::worker
