// The format of one value: width, sign, precision and kind.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_FORMAT_SPEC_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_FORMAT_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = 0;   // '<', '>', '^', '=' (behind the sign), or 0: by kind
  char sign = '-';  // '-', '+' or ' '
  bool is_alternate = false;  // '#'
  char grouping = 0;          // ',' or '_' between thousands
  int64_t width = 0;
  std::optional<int64_t> precision = {};
  char kind = 0;  // the letter at the end, or 0
};

// Takes a decimal number from the front of `text`, if there is one.
// Errors: kInvalidArgument beyond kMaxFieldWidth.
absl::StatusOr<std::optional<int64_t>> TakeWidth(absl::string_view& text);
// Reads a specification of str.format.
absl::StatusOr<FormatSpec> ParseSpec(absl::string_view text);

// The digits of a number, with sign, in the width of `spec`.
absl::StatusOr<Text> FormatInteger(int64_t value, const FormatSpec& spec);
absl::StatusOr<Text> FormatFloat(double value, const FormatSpec& spec);
// `text` cut to the precision and filled up to the width.
Text FormatText(const Text& text, const FormatSpec& spec);
// Formats any value like Python's format().
absl::StatusOr<Text> FormatValue(Evaluator& evaluator, const Value& value,
                                 absl::string_view spec);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_FORMAT_SPEC_H_
