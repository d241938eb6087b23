// Keywords about types and whole values.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_VALUE_KEYWORDS_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_VALUE_KEYWORDS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/schema/shapes/keyword.h"

namespace plimsoll::worker {

// The rule of a keyword of this kind by its name, or null.
const KeywordRule* FindValueKeyword(absl::string_view name);

// The formula that holds for `value` or, if not positive, for all other values
// of `type`.
FormulaResult ValueFormula(const SchemaJson& value, JsonType type,
                           bool is_positive);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_VALUE_KEYWORDS_H_
