// Reads JSON of any spelling, and records the place of each value.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_JSON_TEXT_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_JSON_TEXT_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/schema/shapes/decimal.h"
#include "worker/text/schema/shapes/shape.h"

namespace plimsoll::worker {

struct JsonNode {
  JsonType type = JsonType::kNull;
  size_t begin = 0;  // its first byte in the text
  bool is_true = false;
  Decimal number = {};
  bool is_plain = true;   // the number has neither a point nor an exponent
  std::string text = {};  // a string's text, decoded
  std::vector<std::string> names = {};  // names of members
  std::vector<size_t> name_begins = {};
  std::vector<JsonNode> parts = {};  // items, or members' values
};

struct JsonText {
  JsonNode root;
  bool is_valid = false;
  size_t error_at = 0;  // the first bad byte, if the text is not valid
};

// The deepest that arrays and objects may be nested.
inline constexpr int kMaxJsonTextDepth = 512;

// Text that names a member twice, has half of a surrogate pair, or is nested
// deeper than kMaxJsonTextDepth counts as not valid.
JsonText ReadJsonText(absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_JSON_TEXT_H_
