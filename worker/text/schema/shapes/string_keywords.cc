#include "worker/text/schema/shapes/string_keywords.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/shapes/expander.h"
#include "worker/text/schema/shapes/formats.h"

namespace plimsoll::worker {
namespace {

FormulaResult LengthKeyword(const Keyword& keyword, Expander&) {
  ASSIGN_OR_RETURN(const int64_t n, keyword.Count());
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

FormulaResult PatternKeyword(const Keyword& keyword, Expander& expander) {
  if (!keyword.value.is_string()) {
    return keyword.Error("pattern is not a string");
  }
  auto added = expander.patterns().Add(keyword.value.get<std::string>(),
                                       RegexMatch::kAnywhere);
  if (!added.ok()) {
    if (!absl::IsInvalidArgument(added.status())) return added.status();
    return SchemaError(
        absl::StrCat(keyword.index.PathOf(&keyword.schema), "/pattern"),
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

FormulaResult FormatKeyword(const Keyword& keyword, Expander& expander) {
  const bool p = keyword.is_positive;
  if (!keyword.value.is_string()) return keyword.Error("format is no string");
  if (expander.options().ignore_formats) return Either(p);
  const auto name = keyword.value.get<std::string>();
  const auto pattern = FormatPattern(name);
  if (!pattern) {
    const std::string what =
        absl::StrCat("the format '", name.substr(0, 64), "' is not known");
    if (expander.options().refuse_unknown) return keyword.Error(what);
    expander.Note(keyword.schema, what);
    return Either(p);
  }
  ASSIGN_OR_RETURN(const auto uses,
                   expander.patterns().Add(*pattern, RegexMatch::kWhole));
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

constexpr KeywordRule kStringKeywords[] = {
    {"minLength", JsonType::kString, LengthKeyword},
    {"maxLength", JsonType::kString, LengthKeyword},
    {"pattern", JsonType::kString, PatternKeyword},
    {"format", JsonType::kString, FormatKeyword},
};

}  // namespace

const KeywordRule* FindStringKeyword(absl::string_view name) {
  return FindRule(kStringKeywords, name);
}

}  // namespace plimsoll::worker
