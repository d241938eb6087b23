// Turns schemas into shapes: the conditions that their keywords set for a value
// of one type.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_EXPANDER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_EXPANDER_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/schema/shapes/formula.h"
#include "worker/text/schema/shapes/keyword.h"
#include "worker/text/schema/shapes/pattern_pool.h"
#include "worker/text/schema/shapes/schema_index.h"
#include "worker/text/schema/shapes/schema_options.h"
#include "worker/text/schema/shapes/shape.h"

namespace plimsoll::worker {

// Every function returns kInvalidArgument naming the place and the keyword that
// is wrong or not supported, and the errors of `stop`.
class Expander {
 public:
  // All must outlive it.
  Expander(SchemaIndex& index, PatternPool& patterns,
           const SchemaOptions& options, StopCheck stop)
      : index_(index), patterns_(patterns), options_(options), stop_(stop) {}

  // The shapes of the values of `type` that fit `term`: a value fits if it has
  // one of them.
  absl::StatusOr<std::vector<Shape>> Expand(const Term& term, JsonType type);

  // Whether the string `text` fits `term`.
  absl::StatusOr<bool> FitsString(const Term& term, const std::string& text);

  // The next functions are for keywords. The formula that holds for the values
  // of `type` that `literal` allows.
  FormulaResult Make(const Literal& literal, JsonType type);
  // The shapes of the values that `formula` holds for. Errors: those of Solve.
  absl::StatusOr<std::vector<Shape>> ShapesOf(const FormulaPtr& formula);
  // Notes what says nothing about the reply.
  void Note(const SchemaJson& schema, absl::string_view what);
  SchemaIndex& index() { return index_; }
  PatternPool& patterns() { return patterns_; }
  const SchemaOptions& options() const { return options_; }
  const SchemaNotes& notes() const { return notes_; }

 private:
  FormulaResult MakeSchema(const SchemaJson& schema, JsonType type,
                           bool is_positive);
  FormulaResult MakeKeyword(const Keyword& keyword);
  FormulaResult Unknown(const Keyword& keyword);

  SchemaIndex& index_;
  PatternPool& patterns_;
  const SchemaOptions& options_;
  StopCounter stop_;
  SchemaNotes notes_;
  std::set<std::string> noted_;
  std::map<std::pair<Literal, JsonType>, FormulaPtr> made_;
  std::set<std::pair<Literal, JsonType>> open_;  // being made
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_EXPANDER_H_
