// Values as text: Python's str() and repr(), and JSON.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_PRINTING_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_PRINTING_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Errors of all functions: those of Evaluator::Spend.

absl::StatusOr<Text> Str(Evaluator& evaluator, const Value& value);
absl::StatusOr<Text> Repr(Evaluator& evaluator, const Value& value);
// The shortest decimal with the number's value, as Python writes it.
std::string FloatRepr(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent = {};  // indent of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// json.dumps. Errors: kInvalidArgument for values that JSON cannot represent.
absl::StatusOr<Text> ToJson(Evaluator& evaluator, const Value& value,
                            const JsonStyle& style);

// The text with &, <, >, ' and " escaped for HTML, as markup.
Text EscapeHtml(const Text& text);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_PRINTING_H_
