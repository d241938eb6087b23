#include "worker/text/jinja/builtins/attribute_path.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

// A number if all of it are digits.
Value PathSegment(const Text& segment) {
  int64_t index = 0;
  const absl::string_view bytes = segment.bytes();
  const bool is_number =
      !bytes.empty() &&
      bytes.find_first_not_of("0123456789") == absl::string_view::npos;
  if (is_number && absl::SimpleAtoi(bytes, &index)) return Value(index);
  return Value(segment);
}

}  // namespace

AttributePath::AttributePath(const std::optional<Value>& attribute,
                             std::optional<Value> fallback, bool ignores_case)
    : fallback_(std::move(fallback)), ignores_case_(ignores_case) {
  if (fallback_ && fallback_->is_none()) fallback_ = std::nullopt;
  if (!attribute || attribute->is_none()) return;
  if (!attribute->is_string()) {
    segments_.push_back(*attribute);
    return;
  }
  for (const Text& segment : Split(attribute->text(), ".", -1)) {
    segments_.push_back(PathSegment(segment));
  }
}

absl::StatusOr<Value> AttributePath::Find(Evaluator& evaluator,
                                          Value item) const {
  for (const Value& segment : segments_) {
    ASSIGN_OR_RETURN(item, GetItem(evaluator, item, segment));
    if (fallback_ && item.is_undefined()) item = *fallback_;
  }
  return ignores_case_ ? IgnoreCase(evaluator, item) : item;
}

absl::StatusOr<Value> IgnoreCase(Evaluator& evaluator, const Value& value) {
  if (!value.is_string()) return value;
  return evaluator.MakeText(LowerText(value.text()));
}

}  // namespace plimsoll::worker::jinja
