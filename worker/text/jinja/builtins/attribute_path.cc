#include "worker/text/jinja/builtins/attribute_path.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

// A number if all of it are digits.
Value PathPart(const Text& part) {
  int64_t index = 0;
  const absl::string_view bytes = part.bytes();
  const bool is_number =
      !bytes.empty() &&
      bytes.find_first_not_of("0123456789") == absl::string_view::npos;
  if (is_number && absl::SimpleAtoi(bytes, &index)) return Value(index);
  return Value(part);
}

}  // namespace

AttributePath::AttributePath(const std::optional<Value>& attribute,
                             std::optional<Value> fallback, bool ignores_case)
    : fallback_(std::move(fallback)), ignores_case_(ignores_case) {
  if (fallback_ && fallback_->is_none()) fallback_ = std::nullopt;
  if (!attribute || attribute->is_none()) return;
  if (!attribute->is_string()) {
    parts_.push_back(*attribute);
    return;
  }
  for (const Text& part : Split(attribute->text(), ".", -1)) {
    parts_.push_back(PathPart(part));
  }
}

absl::StatusOr<Value> AttributePath::Find(Evaluator& evaluator,
                                          Value item) const {
  for (const Value& part : parts_) {
    ASSIGN_OR_RETURN(item, GetItem(evaluator, item, part));
    if (fallback_ && item.is_undefined()) item = *fallback_;
  }
  return ignores_case_ ? IgnoreCase(evaluator, item) : item;
}

absl::StatusOr<Value> IgnoreCase(Evaluator& evaluator, const Value& value) {
  if (!value.is_string()) return value;
  return evaluator.MakeText(LowerText(value.text()));
}

}  // namespace plimsoll::worker::jinja
