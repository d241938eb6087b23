// The formats of JSON schema as regular expressions.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_FORMATS_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_FORMATS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The regular expression of a `format`; absent if it is not supported.
std::optional<std::string> FormatPattern(absl::string_view name);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_FORMATS_H_
