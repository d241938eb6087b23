// The spelling of values: JSON, or the forms of some models' calls.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_SPELLING_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_SPELLING_H_

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::worker {

// Strings without escapes. A string that a schema restricts does not have the
// character that `end` begins with.
struct RawStrings {
  std::string open = {};
  std::string close = {};               // after a restricted string
  std::string end = {};                 // ends any other string
  std::vector<std::string> never = {};  // texts that no string may have
};

struct JsonSpelling {
  bool is_any = false;  // strings and numbers have every spelling of JSON
  bool plain_integers = false;         // integers have digits only
  bool has_space = true;               // white space may stand between tokens
  bool has_bare_keys = false;          // names need no quotes
  std::string escaped = {};            // ASCII that is always spelled \u00XX
  std::optional<RawStrings> raw = {};  // instead of JSON's strings
  std::string object_open = "{";
  std::string object_close = "}";
  std::string comma = ",";
  std::string true_word = "true";
  std::string false_word = "false";
  std::string null_word = "null";
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_SPELLING_H_
