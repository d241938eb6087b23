#include "worker/text/schema/shapes/object_keywords.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/shapes/expander.h"

namespace plimsoll::worker {
namespace {

// How deep unevaluatedProperties looks into schemas in place.
constexpr int kMaxEvaluatedDepth = 32;

FormulaPtr RuleAtom(const ObjectShape::Rule& rule) {
  return Atom([rule](Shape& shape) {
    shape.object.rules.push_back(rule);
    return true;
  });
}

FormulaPtr WitnessAtom(const ObjectShape::Witness& witness) {
  return Atom([witness](Shape& shape) {
    shape.object.witnesses.push_back(witness);
    return true;
  });
}

FormulaResult PropertiesKeyword(const Keyword& keyword, Expander&) {
  if (!keyword.value.is_object()) {
    return keyword.Error("properties is not an object");
  }
  if (keyword.value.size() > kMaxSchemaMembers) {
    return keyword.Error(absl::StrCat("properties has ", keyword.value.size(),
                                      " members; at most ", kMaxSchemaMembers,
                                      " are allowed"));
  }
  const bool p = keyword.is_positive;
  std::vector<FormulaPtr> parts;
  for (const auto& [name, schema] : keyword.value.items()) {
    if (name.size() > kMaxPropertyBytes) {
      return keyword.Error(absl::StrCat("the name of a property has more than ",
                                        kMaxPropertyBytes, " bytes"));
    }
    const Term term = {FitsSchema(schema, p)};
    // Up to draft 3, a property said itself that it is required.
    const SchemaJson* required = Member(schema, "required");
    const bool is_required = keyword.index.draft() == SchemaDraft::kDraft3 &&
                             required != nullptr && *required == true;
    parts.push_back(
        Atom([name = name, term, is_needed = !p || is_required](Shape& shape) {
          if (is_needed) return RequireMember(shape, name, term);
          AddTo(shape.object.At(name).term, term);
          return true;
        }));
    if (p || !is_required) continue;
    parts.push_back(Atom(
        [name = name](Shape& shape) { return ForbidMember(shape, name); }));
  }
  return AllOf(p, std::move(parts));
}

FormulaResult PatternPropertiesKeyword(const Keyword& keyword,
                                       Expander& expander) {
  if (!keyword.value.is_object()) {
    return keyword.Error("patternProperties is not an object");
  }
  std::vector<FormulaPtr> parts;
  for (const auto& [source, schema] : keyword.value.items()) {
    auto uses = expander.patterns().Add(source, RegexMatch::kAnywhere);
    if (!uses.ok()) {
      if (!absl::IsInvalidArgument(uses.status())) return uses.status();
      return keyword.Error(absl::StrCat("of the pattern '",
                                        source.substr(0, 64), "' ",
                                        uses.status().message()));
    }
    const ObjectShape::Rule rule = {
        .is_rest = false,
        .patterns = {*std::move(uses)},
        .term = {FitsSchema(schema, keyword.is_positive)}};
    parts.push_back(keyword.is_positive ? RuleAtom(rule)
                                        : WitnessAtom({rule, {}}));
  }
  return AllOf(keyword.is_positive, std::move(parts));
}

// The rule for names that `properties` and `patternProperties` of the schema do
// not cover.
absl::StatusOr<ObjectShape::Rule> RestRule(const SchemaJson& schema,
                                           bool is_positive,
                                           const SchemaJson& of,
                                           Expander& expander) {
  ObjectShape::Rule rule = {.is_rest = true,
                            .term = {FitsSchema(of, is_positive)}};
  const SchemaJson* named = Member(schema, "properties");
  if (named != nullptr && named->is_object()) {
    for (const auto& [name, one] : named->items()) rule.names.push_back(name);
  }
  const SchemaJson* patterned = Member(schema, "patternProperties");
  if (patterned != nullptr && patterned->is_object()) {
    for (const auto& [source, one] : patterned->items()) {
      ASSIGN_OR_RETURN(auto uses,
                       expander.patterns().Add(source, RegexMatch::kAnywhere));
      rule.patterns.push_back(std::move(uses));
    }
  }
  return rule;
}

FormulaResult AdditionalKeyword(const Keyword& keyword, Expander& expander) {
  ASSIGN_OR_RETURN(
      const ObjectShape::Rule rule,
      RestRule(keyword.schema, keyword.is_positive, keyword.value, expander));
  return keyword.is_positive ? RuleAtom(rule) : WitnessAtom({rule, {}});
}

// Gathers what the schemas in place beside unevaluatedProperties evaluate.
class Evaluated {
 public:
  Evaluated(const Keyword& keyword, Expander& expander)
      : keyword_(keyword), expander_(expander) {}

  // Adds what `schema` evaluates, which is `depth` schemas below the keyword's.
  absl::Status Add(const SchemaJson& schema, int depth) {
    if (depth > kMaxEvaluatedDepth) {
      return keyword_.Unsupported("beside few nested schemas only");
    }
    ASSIGN_OR_RETURN(ObjectShape::Rule own,
                     RestRule(schema, /*is_positive=*/true, schema, expander_));
    rule_.names.insert(rule_.names.end(), own.names.begin(), own.names.end());
    rule_.patterns.insert(rule_.patterns.end(), own.patterns.begin(),
                          own.patterns.end());
    is_all_ = is_all_ || Member(schema, "additionalProperties") != nullptr ||
              (depth > 0 && Member(schema, "unevaluatedProperties") != nullptr);
    for (const char* choice : {"anyOf", "oneOf", "if", "then", "else",
                               "dependentSchemas", "dependencies"}) {
      if (Member(schema, choice) != nullptr) {
        return keyword_.Unsupported(
            absl::StrCat("without '", choice, "' only"));
      }
    }
    for (const char* ref : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      const SchemaJson* value = Member(schema, ref);
      if (value == nullptr) continue;
      ASSIGN_OR_RETURN(
          const SchemaJson* target,
          expander_.index().Resolve(schema, *value, ref[1] != 'r'));
      RETURN_IF_ERROR(Add(*target, depth + 1));
    }
    const SchemaJson* all = Member(schema, "allOf");
    if (all == nullptr || !all->is_array()) return absl::OkStatus();
    for (const SchemaJson& one : *all) {
      RETURN_IF_ERROR(Add(one, depth + 1));
    }
    return absl::OkStatus();
  }

  // Whether every member is evaluated.
  bool is_all() const { return is_all_; }
  // The rule for the other members, without their term.
  const ObjectShape::Rule& rule() const { return rule_; }

 private:
  const Keyword& keyword_;
  Expander& expander_;
  ObjectShape::Rule rule_ = {.is_rest = true};
  bool is_all_ = false;
};

FormulaResult UnevaluatedKeyword(const Keyword& keyword, Expander& expander) {
  if (keyword.value == true) return Either(keyword.is_positive);
  Evaluated evaluated(keyword, expander);
  RETURN_IF_ERROR(evaluated.Add(keyword.schema, /*depth=*/0));
  if (evaluated.is_all()) return Either(keyword.is_positive);
  ObjectShape::Rule rule = evaluated.rule();
  rule.term = {FitsSchema(keyword.value, keyword.is_positive)};
  return keyword.is_positive ? RuleAtom(rule) : WitnessAtom({rule, {}});
}

FormulaResult RequiredKeyword(const Keyword& keyword, Expander&) {
  // Up to draft 3, a property said so of itself.
  if (keyword.value.is_boolean()) return Either(keyword.is_positive);
  ASSIGN_OR_RETURN(const auto names, keyword.NamesIn(keyword.value));
  std::vector<FormulaPtr> parts;
  parts.reserve(names.size());
  for (const std::string& name : names) {
    parts.push_back(Atom([name, p = keyword.is_positive](Shape& shape) {
      return p ? RequireMember(shape, name, {}) : ForbidMember(shape, name);
    }));
  }
  return AllOf(keyword.is_positive, std::move(parts));
}

FormulaResult NamesKeyword(const Keyword& keyword, Expander&) {
  const Term term = {FitsSchema(keyword.value, keyword.is_positive)};
  if (keyword.is_positive) {
    return Atom([term](Shape& shape) {
      AddTo(shape.object.names, term);
      return true;
    });
  }
  return WitnessAtom({{.is_rest = true}, term});
}

FormulaResult MemberCountKeyword(const Keyword& keyword, Expander&) {
  ASSIGN_OR_RETURN(const int64_t n, keyword.Count());
  const bool is_most = keyword.name == "maxProperties";
  if (!is_most && !keyword.is_positive && n == 0) return Never();
  const bool is_upper = is_most == keyword.is_positive;
  const int64_t opposite = is_most ? 1 : -1;
  const int64_t shift = keyword.is_positive ? 0 : opposite;
  return Atom([n, is_upper, shift](Shape& shape) {
    return is_upper ? RestrictMemberCount(shape, 0, n + shift)
                    : RestrictMemberCount(shape, n + shift,
                                          GrammarBuilder::kUnlimited);
  });
}

FormulaResult Dependency(const Keyword& keyword, const std::string& name,
                         const SchemaJson& value, Expander& expander) {
  const bool p = keyword.is_positive;
  FormulaPtr needed;
  if (value.is_array() || value.is_string()) {
    const SchemaJson list =
        value.is_array() ? value : SchemaJson::array({value});
    ASSIGN_OR_RETURN(const auto names, keyword.NamesIn(list));
    std::vector<FormulaPtr> parts;
    parts.reserve(names.size());
    for (const std::string& other : names) {
      parts.push_back(Atom([other, p](Shape& shape) {
        return p ? RequireMember(shape, other, {}) : ForbidMember(shape, other);
      }));
    }
    needed = AllOf(p, std::move(parts));
  } else {
    ASSIGN_OR_RETURN(needed, expander.Make(FitsSchema(value, p), keyword.type));
  }
  const FormulaPtr is_there =
      Atom([name](Shape& shape) { return RequireMember(shape, name, {}); });
  const FormulaPtr is_absent =
      Atom([name](Shape& shape) { return ForbidMember(shape, name); });
  if (!p) return And({is_there, needed});
  if (IsAlways(needed)) return Always();
  return Or({And({is_there, needed}), is_absent});
}

FormulaResult DependenciesKeyword(const Keyword& keyword, Expander& expander) {
  if (!keyword.value.is_object()) {
    return keyword.Error(absl::StrCat(keyword.name, " is not an object"));
  }
  std::vector<FormulaPtr> parts;
  for (const auto& [name, value] : keyword.value.items()) {
    ASSIGN_OR_RETURN(FormulaPtr part,
                     Dependency(keyword, name, value, expander));
    parts.push_back(std::move(part));
  }
  return AllOf(keyword.is_positive, std::move(parts));
}

constexpr KeywordRule kObjectKeywords[] = {
    {"properties", JsonType::kObject, PropertiesKeyword},
    {"patternProperties", JsonType::kObject, PatternPropertiesKeyword},
    {"additionalProperties", JsonType::kObject, AdditionalKeyword},
    {"unevaluatedProperties", JsonType::kObject, UnevaluatedKeyword},
    {"required", JsonType::kObject, RequiredKeyword},
    {"propertyNames", JsonType::kObject, NamesKeyword},
    {"minProperties", JsonType::kObject, MemberCountKeyword},
    {"maxProperties", JsonType::kObject, MemberCountKeyword},
    {"dependencies", JsonType::kObject, DependenciesKeyword},
    {"dependentRequired", JsonType::kObject, DependenciesKeyword},
    {"dependentSchemas", JsonType::kObject, DependenciesKeyword},
};

}  // namespace

const KeywordRule* FindObjectKeyword(absl::string_view name) {
  return FindRule(kObjectKeywords, name);
}

}  // namespace plimsoll::worker
