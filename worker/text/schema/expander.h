// Turns schemas into shapes: the conditions that their keywords set for a value
// of one type.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_EXPANDER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_EXPANDER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/schema/formula.h"
#include "worker/text/schema/pattern_pool.h"
#include "worker/text/schema/schema_index.h"
#include "worker/text/schema/schema_options.h"
#include "worker/text/schema/shape.h"

namespace plimsoll::worker {

// Every function returns kInvalidArgument naming the place and the keyword that
// is wrong or not supported, and the errors of `stop`.
class Expander {
 public:
  using Result = absl::StatusOr<FormulaPtr>;

  // All must outlive it.
  Expander(SchemaIndex& index, PatternPool& patterns,
           const SchemaOptions& options, SchemaNotes& notes, StopCheck stop)
      : index_(index),
        patterns_(patterns),
        options_(options),
        notes_(notes),
        stop_(stop) {}

  // The shapes of the values of `type` that fit `term`: a value fits if it has
  // one of them.
  absl::StatusOr<std::vector<Shape>> Expand(const Term& term, JsonType type);

  // Whether the string `text` fits `term`.
  absl::StatusOr<bool> FitsString(const Term& term, const std::string& text);

 private:
  // A keyword of a schema, for values of one type. If the keyword is not
  // positive, values must violate it.
  struct Keyword {
    const SchemaJson& schema;
    const SchemaJson& value;
    std::string name;
    JsonType type;
    bool is_positive;
  };
  // A keyword that is known.
  struct Rule {
    const char* name;
    std::optional<JsonType> type;  // type of its values; absent: all
    Result (Expander::*make)(const Keyword&);
  };
  static const Rule* FindRule(absl::string_view name);

  // expander.cc
  Result Make(const Literal& literal, JsonType type);
  Result MakeSchema(const SchemaJson& schema, JsonType type, bool is_positive);
  Result MakeKeyword(const Keyword& keyword);
  Result Unknown(const Keyword& keyword);
  void Note(const SchemaJson& schema, absl::string_view what);
  absl::Status Error(const Keyword& keyword, absl::string_view what) const;
  absl::Status Unsupported(const Keyword& keyword,
                           absl::string_view what) const;
  Literal Of(const SchemaJson& schema, bool is_positive) const {
    return {&schema, /*is_value=*/false, is_positive};
  }
  // A count, at most Grammar::kMaxRepeat.
  absl::StatusOr<int64_t> CountOf(const Keyword& keyword) const;
  absl::StatusOr<Decimal> NumberOf(const Keyword& keyword) const;
  absl::StatusOr<std::vector<std::string>> NamesIn(const Keyword& keyword,
                                                   const SchemaJson& list);

  // choice_keywords.cc
  Result Ref(const Keyword& keyword);
  Result AllOfKeyword(const Keyword& keyword);
  Result AnyOfKeyword(const Keyword& keyword);
  Result OneOfKeyword(const Keyword& keyword);
  // Holds for a value of `type` that fits none of `schemas`.
  Result NoneOf(const std::vector<const SchemaJson*>& schemas, JsonType type);
  Result NotKeyword(const Keyword& keyword);
  Result IfKeyword(const Keyword& keyword);
  absl::StatusOr<std::vector<const SchemaJson*>> ListOf(
      const Keyword& keyword) const;
  // The strings or numbers that fit, if they are listed.
  absl::StatusOr<std::optional<std::set<std::string>>> ValuesOf(
      const FormulaPtr& formula, JsonType type);
  // Whether a value of a member may fit. True if this is not easy to decide.
  absl::StatusOr<bool> MayFit(const Term& term, JsonType type);
  // Whether no value fits both. False if this is not easy to decide.
  absl::StatusOr<bool> AreApart(const FormulaPtr& a, const FormulaPtr& b);

  // value_keywords.cc
  Result Value(const SchemaJson& value, JsonType type, bool is_positive);
  Result ObjectValue(const SchemaJson& value, bool is_positive);
  Result ArrayValue(const SchemaJson& value, bool is_positive);
  Result TypeKeyword(const Keyword& keyword);
  Result NamedType(const Keyword& keyword, const SchemaJson& name);
  Result ConstKeyword(const Keyword& keyword);
  Result EnumKeyword(const Keyword& keyword);
  Result LengthKeyword(const Keyword& keyword);
  Result PatternKeyword(const Keyword& keyword);
  Result FormatKeyword(const Keyword& keyword);
  Result BoundKeyword(const Keyword& keyword);
  Result MultipleKeyword(const Keyword& keyword);

  // array_keywords.cc
  Result ItemsKeyword(const Keyword& keyword);
  Result PrefixKeyword(const Keyword& keyword);
  Result AdditionalItemsKeyword(const Keyword& keyword);
  Result UnevaluatedItemsKeyword(const Keyword& keyword);
  Result ContainsKeyword(const Keyword& keyword);
  Result ItemCountKeyword(const Keyword& keyword);
  Result UniqueKeyword(const Keyword& keyword);
  Result PrefixOf(const Keyword& keyword, const SchemaJson& list);
  Result RestOf(const Keyword& keyword, const SchemaJson& schema, size_t from);

  // object_keywords.cc
  Result PropertiesKeyword(const Keyword& keyword);
  Result PatternPropertiesKeyword(const Keyword& keyword);
  Result AdditionalKeyword(const Keyword& keyword);
  Result UnevaluatedKeyword(const Keyword& keyword);
  Result RequiredKeyword(const Keyword& keyword);
  Result NamesKeyword(const Keyword& keyword);
  Result MemberCountKeyword(const Keyword& keyword);
  Result DependenciesKeyword(const Keyword& keyword);
  Result Dependency(const Keyword& keyword, const std::string& name,
                    const SchemaJson& value);
  // The rule for names that `properties` and `patternProperties` of the schema
  // do not cover.
  absl::StatusOr<ObjectShape::Rule> RestRule(const SchemaJson& schema,
                                             bool is_positive,
                                             const SchemaJson& of);
  absl::Status AddEvaluated(const Keyword& keyword, const SchemaJson& schema,
                            ObjectShape::Rule& rule, bool& is_all, int depth);

  SchemaIndex& index_;
  PatternPool& patterns_;
  const SchemaOptions& options_;
  SchemaNotes& notes_;
  StopCounter stop_;
  std::set<std::string> noted_;
  std::map<std::pair<Literal, JsonType>, FormulaPtr> made_;
  std::set<std::pair<Literal, JsonType>> open_;  // being made
};

// The type of a value.
JsonType TypeOf(const SchemaJson& value);
// The number that `value` is.
std::optional<Decimal> DecimalOf(const SchemaJson& value);
// A text as JSON's string, with its quotes.
std::string QuotedJson(const std::string& text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_EXPANDER_H_
