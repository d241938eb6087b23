// Python's string formatting: "%" and str.format.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_FORMAT_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_FORMAT_H_

#include "absl/status/statusor.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// A field is at most this wide.
inline constexpr int64_t kMaxFieldWidth = 10'000;

// `format % values`. Errors: kInvalidArgument if Python raises.
absl::StatusOr<Value> FormatPercent(Evaluator& evaluator, const Value& format,
                                    const Value& values);
// `format.format(arguments)`. Errors: kInvalidArgument if Python raises.
absl::StatusOr<Value> FormatBraces(Evaluator& evaluator, const Text& format,
                                   const Arguments& arguments);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_FORMAT_H_
