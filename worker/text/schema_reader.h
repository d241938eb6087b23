// Reads the JSON text of a schema to a tree, within limits.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_READER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_READER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace plimsoll::worker {

// JSON that keeps members in the order of the text.
using SchemaJson = nlohmann::ordered_json;

inline constexpr int kMaxSchemaDepth = 64;  // arrays and objects

// Parses `text`. Errors: kInvalidArgument naming the byte where `text` is not
// JSON, is nested deeper than kMaxSchemaDepth or names a member twice.
absl::StatusOr<SchemaJson> ReadSchemaJson(absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_READER_H_
