#include "worker/text/schema/object_planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// The most patterns of names in one object: each may match or not.
constexpr size_t kMaxNamePatterns = 6;
// The most kinds of names, and of objects with a member that must be there.
constexpr size_t kMaxCases = 64;

absl::Status TooManyCases() {
  return absl::InvalidArgumentError(absl::StrCat(
      "it has too many cases: members of its objects that must be there are "
      "more than ",
      kMaxCases));
}

// Adds the patterns of `from` to `to`, each once.
void AddPatterns(const std::vector<std::vector<PatternUse>>& from,
                 std::vector<std::vector<PatternUse>>& to) {
  for (const auto& one : from) {
    if (std::find(to.begin(), to.end(), one) == to.end()) to.push_back(one);
  }
}

// Whether a rule is about the names of a kind.
bool IsAboutKind(const ObjectShape::Rule& rule, const NameKind& kind) {
  bool matches = false;
  for (size_t i = 0; i < kind.patterns.size(); ++i) {
    if (!kind.Has(i)) continue;
    matches |= std::find(rule.patterns.begin(), rule.patterns.end(),
                         kind.patterns[i]) != rule.patterns.end();
  }
  return matches != rule.is_rest;
}

// Adds a use to a shape of names. Returns false if nothing is left.
bool AddUse(StringShape& shape, const PatternUse& use) {
  std::vector<PatternUse>& uses = shape.patterns;
  const PatternUse opposite = {use.pattern, !use.is_negated};
  if (std::binary_search(uses.begin(), uses.end(), opposite)) return false;
  const auto at = std::lower_bound(uses.begin(), uses.end(), use);
  if (at == uses.end() || *at != use) uses.insert(at, use);
  return true;
}

}  // namespace

absl::StatusOr<bool> ObjectPlanner::IsAbout(const ObjectShape::Rule& rule,
                                            const std::string& name) {
  if (rule.is_rest && std::find(rule.names.begin(), rule.names.end(), name) !=
                          rule.names.end()) {
    return false;
  }
  for (const auto& pattern : rule.patterns) {
    ASSIGN_OR_RETURN(const bool matches, patterns_.Matches(pattern, name));
    if (matches) return !rule.is_rest;
  }
  return rule.is_rest;
}

absl::StatusOr<Term> ObjectPlanner::TermOf(const ObjectShape& shape,
                                           const ObjectShape::Named& named) {
  Term term = named.term;
  for (const ObjectShape::Rule& rule : shape.rules) {
    ASSIGN_OR_RETURN(const bool is_about, IsAbout(rule, named.name));
    if (is_about) AddTo(term, rule.term);
  }
  return term;
}

absl::Status ObjectPlanner::SplitWitnesses(ObjectShape shape,
                                           std::vector<ObjectShape>& out) {
  // The last one may be any other member.
  if (shape.witnesses.empty()) {
    out.push_back(std::move(shape));
    return absl::OkStatus();
  }
  std::vector<ObjectShape> left = {std::move(shape)};
  const size_t n = left[0].witnesses.size();
  // Each shape has the witnesses that are other members in front.
  for (size_t i = 0; i < n; ++i) {
    std::vector<ObjectShape> split;
    for (ObjectShape& one : left) {
      const ObjectShape::Witness witness = one.witnesses.back();
      one.witnesses.pop_back();
      for (size_t k = 0; k < one.named.size(); ++k) {
        const ObjectShape::Named& named = one.named[k];
        if (named.is_forbidden) continue;
        ASSIGN_OR_RETURN(const bool is_about,
                         IsAbout(witness.rule, named.name));
        if (!is_about) continue;
        if (!witness.name.empty()) {
          ASSIGN_OR_RETURN(const bool fits,
                           expander_.FitsString(witness.name, named.name));
          if (!fits) continue;
        }
        split.push_back(one);
        if (split.size() > kMaxCases) return TooManyCases();
        AddTo(split.back().named[k].term, witness.rule.term);
        split.back().named[k].is_required = true;
      }
      one.witnesses.insert(one.witnesses.begin(), witness);
      split.push_back(std::move(one));
    }
    left = std::move(split);
    if (left.size() > kMaxCases) return TooManyCases();
  }
  for (ObjectShape& one : left) out.push_back(std::move(one));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StringShape>> ObjectPlanner::NameShapes(
    const Term& term) {
  if (term.empty()) return std::vector<StringShape>(1);
  ASSIGN_OR_RETURN(std::vector<Shape> shapes,
                   expander_.Expand(term, JsonType::kString));
  std::vector<StringShape> names;
  names.reserve(shapes.size());
  for (Shape& shape : shapes) names.push_back(std::move(shape.string));
  return names;
}

absl::StatusOr<std::vector<StringShape>> ObjectPlanner::NamesOf(
    const NameKind& kind, const std::vector<std::string>& listed,
    const std::vector<StringShape>& among, const std::string& path) {
  std::vector<StringShape> names = among;
  for (size_t i = 0; i < kind.patterns.size(); ++i) {
    std::vector<StringShape> split;
    for (StringShape& one : names) {
      if (kind.Has(i)) {
        bool is_left = true;
        for (const PatternUse& use : kind.patterns[i]) {
          is_left = is_left && AddUse(one, use);
        }
        if (is_left) split.push_back(std::move(one));
        continue;
      }
      // One of its uses fails.
      for (const PatternUse& use : kind.patterns[i]) {
        StringShape without = one;
        if (AddUse(without, {use.pattern, !use.is_negated})) {
          split.push_back(std::move(without));
        }
      }
    }
    names = std::move(split);
  }
  std::vector<StringShape> out;
  for (StringShape& one : names) {
    Shape shape;
    shape.string = std::move(one);
    bool is_left = true;
    for (const std::string& name : listed) {
      // Names that do not match need not be left out.
      bool may_match = true;
      if (!shape.string.values) {
        const auto matches = patterns_.Matches(shape.string.patterns, name);
        if (!matches.ok()) return SchemaErrorAt(path, matches.status());
        may_match = *matches;
      }
      if (may_match) is_left = is_left && ExcludeString(shape, name);
    }
    if (is_left) RETURN_IF_ERROR(scalars_.AddString(shape.string, out, path));
  }
  return out;
}

absl::StatusOr<std::vector<ObjectPlan::Others>> ObjectPlanner::OthersOf(
    const ObjectShape& shape, const std::vector<std::string>& listed,
    const ObjectShape::Witness* witness, const std::string& path) {
  std::vector<std::vector<PatternUse>> patterns;
  for (const ObjectShape::Rule& rule : shape.rules) {
    AddPatterns(rule.patterns, patterns);
  }
  if (witness != nullptr) AddPatterns(witness->rule.patterns, patterns);
  if (patterns.size() > kMaxNamePatterns) {
    return SchemaError(
        path, absl::StrCat("more than ", kMaxNamePatterns,
                           " patterns of names are together in one object"));
  }
  Term name_term = shape.names;
  if (witness != nullptr) AddTo(name_term, witness->name);
  ASSIGN_OR_RETURN(const std::vector<StringShape> among, NameShapes(name_term));
  std::vector<ObjectPlan::Others> others;
  for (uint32_t in = 0; in < uint32_t{1} << patterns.size(); ++in) {
    const NameKind kind = {patterns, in};
    Term term;
    if (witness != nullptr) {
      if (!IsAboutKind(witness->rule, kind)) continue;
      AddTo(term, witness->rule.term);
    }
    for (const ObjectShape::Rule& rule : shape.rules) {
      if (IsAboutKind(rule, kind)) AddTo(term, rule.term);
    }
    const bool is_nothing =
        std::any_of(term.begin(), term.end(), [](const Literal& one) {
          return !one.is_value && one.json->is_boolean() &&
                 one.json->get<bool>() != one.is_positive;
        });
    if (is_nothing) continue;
    ASSIGN_OR_RETURN(auto names, NamesOf(kind, listed, among, path));
    if (names.empty()) continue;
    others.push_back({std::move(names), numbers_.Of(term)});
  }
  return others;
}

absl::Status ObjectPlanner::Add(ObjectShape shape, ValuePlan& plan,
                                const std::string& path) {
  // Names that rules speak of are listed, too.
  for (size_t i = 0; i < shape.rules.size(); ++i) {
    if (!shape.rules[i].is_rest) continue;
    for (const std::string& name : shape.rules[i].names) shape.At(name);
  }
  for (const ObjectShape::Witness& one : shape.witnesses) {
    for (const std::string& name : one.rule.names) shape.At(name);
  }
  std::vector<ObjectShape> cases;
  if (const absl::Status status = SplitWitnesses(std::move(shape), cases);
      !status.ok()) {
    return SchemaErrorAt(path, status);
  }
  for (const ObjectShape& one : cases) {
    RETURN_IF_ERROR(AddCase(one, plan, path));
  }
  return absl::OkStatus();
}

absl::Status ObjectPlanner::AddCase(const ObjectShape& one, ValuePlan& plan,
                                    const std::string& path) {
  if (one.witnesses.size() > 1) {
    return SchemaError(path,
                       "more than one member with a name that is not listed "
                       "must be there");
  }
  ObjectPlan object = {.min = one.min, .max = one.max};
  std::vector<std::string> listed;
  for (const ObjectShape::Named& named : one.named) {
    listed.push_back(named.name);
    bool fits = !named.is_forbidden;
    if (fits && !one.names.empty()) {
      ASSIGN_OR_RETURN(fits, expander_.FitsString(one.names, named.name));
    }
    if (!fits && named.is_required) return absl::OkStatus();
    if (!fits) continue;
    ASSIGN_OR_RETURN(const Term term, TermOf(one, named));
    object.named.push_back({named.name, numbers_.Of(term), named.is_required});
  }
  if (listed.size() > kMaxSchemaMembers) {
    return SchemaError(path, absl::StrCat("an object has ", listed.size(),
                                          " properties; at most ",
                                          kMaxSchemaMembers, " are allowed"));
  }
  const bool is_closed = options_.closed_objects && one.rules.empty();
  if (!is_closed) {
    ASSIGN_OR_RETURN(object.others, OthersOf(one, listed, nullptr, path));
  }
  if (!one.witnesses.empty()) {
    ASSIGN_OR_RETURN(object.last,
                     OthersOf(one, listed, &one.witnesses[0], path));
    if (object.last.empty()) return absl::OkStatus();
  }
  const auto n_required = std::count_if(
      object.named.begin(), object.named.end(),
      [](const ObjectPlan::Named& named) { return named.is_required; });
  // A name that is not listed may come twice, and is then one member.
  if (object.min > n_required + 1 &&
      (!object.others.empty() || !object.last.empty())) {
    return SchemaError(path,
                       "the keyword 'minProperties' is supported for one "
                       "member beside the required ones only, unless "
                       "additionalProperties is false");
  }
  plan.objects.push_back(std::move(object));
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
