// A keyword of a schema, and what its value says.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_KEYWORD_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_KEYWORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/schema/shapes/decimal.h"
#include "worker/text/schema/shapes/formula.h"
#include "worker/text/schema/shapes/schema_index.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {

class Expander;

// A keyword for values of one type. If it is not positive, values must violate
// it. Its functions return kInvalidArgument naming the place.
struct Keyword {
  const SchemaIndex& index;
  const SchemaJson& schema;
  const SchemaJson& value;
  std::string name;
  JsonType type;
  bool is_positive;

  absl::Status Error(absl::string_view what) const;
  // The error of a keyword that is supported only in a way, which `what` tells.
  absl::Status Unsupported(absl::string_view what) const;
  // The value as a count, at most Grammar::kMaxRepeat.
  absl::StatusOr<int64_t> Count() const;
  absl::StatusOr<Decimal> Number() const;
  // The names of properties in `list`.
  absl::StatusOr<std::vector<std::string>> NamesIn(
      const SchemaJson& list) const;
};

// How the formula of a known keyword is made. Errors: kInvalidArgument naming
// the place and the keyword that is wrong or not supported; those of the
// expander.
struct KeywordRule {
  const char* name;
  std::optional<JsonType> type;  // type of its values; absent: all
  FormulaResult (*make)(const Keyword& keyword, Expander& expander);
};

// The rule for the keyword that is called `name`, or null.
template <typename Rules>
const KeywordRule* FindRule(const Rules& rules, absl::string_view name) {
  for (const KeywordRule& rule : rules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// The condition that a value fits `schema` or, if not positive, does not.
inline Literal FitsSchema(const SchemaJson& schema, bool is_positive) {
  return {&schema, /*is_value=*/false, is_positive};
}
// The number that `value` is.
std::optional<Decimal> DecimalOf(const SchemaJson& value);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_KEYWORD_H_
