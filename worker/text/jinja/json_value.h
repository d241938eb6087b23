// Values made from JSON.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_JSON_VALUE_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_JSON_VALUE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

inline constexpr int kMaxJsonDepth = 100;  // arrays and objects

// Parses `json`. With `is_tainted`, all strings and names in it are tainted.
// Errors: kInvalidArgument naming the byte if the text is not JSON, is nested
// deeper than kMaxJsonDepth or has a member twice.
absl::StatusOr<Value> FromJson(absl::string_view json, bool is_tainted);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_JSON_VALUE_H_
