// How values are written: as JSON, or as some models write them in calls.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_SPELLING_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_SPELLING_H_

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::worker {

// Strings whose characters stand as they are, without escapes. Those that are
// bound by a schema have no character that `end` begins with.
struct RawStrings {
  std::string open = {};
  std::string close = {};               // behind a string that is bound
  std::string end = {};                 // ends any other string
  std::vector<std::string> never = {};  // texts that no string may have
};

struct JsonSpelling {
  bool is_any = false;  // strings and numbers have every spelling of JSON
  bool plain_integers = false;         // integers have digits only
  bool has_space = true;               // white space may stand between tokens
  bool has_bare_keys = false;          // names need no quotes
  std::string escaped = {};            // ASCII that strings have as \u00XX only
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
