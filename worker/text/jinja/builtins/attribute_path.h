// The argument `attribute` of filters: "a.b.0".
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_ATTRIBUTE_PATH_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_ATTRIBUTE_PATH_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Finds a part of each element.
class AttributePath {
 public:
  // The path of an element itself if `attribute` is absent. With
  // `ignores_case`, found text is converted to lower case.
  explicit AttributePath(const std::optional<Value>& attribute,
                         std::optional<Value> fallback = std::nullopt,
                         bool ignores_case = false);

  // The value at the path, or the fallback if that is undefined.
  absl::StatusOr<Value> Find(Evaluator& evaluator, Value item) const;

 private:
  std::vector<Value> segments_;
  std::optional<Value> fallback_;
  bool ignores_case_;
};

// Converts text to lower case; any other value is unchanged.
absl::StatusOr<Value> IgnoreCase(Evaluator& evaluator, const Value& value);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_ATTRIBUTE_PATH_H_
