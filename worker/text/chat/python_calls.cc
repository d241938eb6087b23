#include "worker/text/chat/python_calls.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/chat/text_cursor.h"
#include "worker/text/json_check.h"

namespace plimsoll::worker {
namespace {

absl::Status NotPython(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// Reads from the front of a text and writes JSON.
class PythonReader : TextCursor {
 public:
  explicit PythonReader(absl::string_view text) : TextCursor(text) {
    SkipSpace();
  }

  absl::StatusOr<std::vector<ToolCall>> Calls() {
    std::vector<ToolCall> calls;
    const bool is_list = Take('[');
    do {
      ASSIGN_OR_RETURN(ToolCall call, Call());
      calls.push_back(std::move(call));
    } while (is_list && Take(','));
    if (is_list && !Take(']'))
      return NotPython("']' is missing behind the calls");
    if (!rest_.empty()) return NotPython("text follows the calls");
    return calls;
  }

 private:
  // Takes the text before the next sign of the syntax.
  absl::string_view TakeWord() {
    const size_t n =
        std::min(rest_.find_first_of("()[]{},:='\" \t\r\n"), rest_.size());
    const absl::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    SkipSpace();
    return word;
  }

  absl::StatusOr<ToolCall> Call() {
    ToolCall call;
    call.name = std::string(TakeWord());
    RETURN_IF_ERROR(CheckToolName(call.name));
    if (!Take('(')) return NotPython("'(' is missing behind a name");
    json_.assign(1, '{');
    std::set<std::string> names;
    while (!Take(')')) {
      if (!names.empty()) {
        if (!Take(',')) return NotPython("',' or ')' is missing in a call");
        if (Take(')')) break;
        json_ += ',';
      }
      const std::string name(TakeWord());
      if (name.empty() || !Take('='))
        return NotPython("an argument has no name");
      if (!names.insert(name).second) {
        return NotPython(
            absl::StrCat("'", absl::CEscape(name), "' is named twice"));
      }
      absl::StrAppend(&json_, JsonString(name), ":");
      RETURN_IF_ERROR(Value());
    }
    json_ += '}';
    call.arguments = std::move(json_);
    return call;
  }

  // Takes a string; its first quote has been taken.
  absl::StatusOr<std::string> String(char quote) {
    std::string text;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        SkipSpace();
        return text;
      }
      if (rest_[i] == '\\' && i + 1 < rest_.size()) {
        std::string one;
        const size_t n = EscapeBytes(rest_.substr(i));
        if (absl::CUnescape(rest_.substr(i, n), &one)) {
          text += one;
        } else {
          text.append(rest_.data() + i, n);
        }
        i += n - 1;
        continue;
      }
      text += rest_[i];
    }
    return NotPython("a string is not closed");
  }

  // The length of the escape that `text` begins with.
  static size_t EscapeBytes(absl::string_view text) {
    if (text[1] == 'u') return std::min<size_t>(6, text.size());
    if (text[1] == 'x') return std::min<size_t>(4, text.size());
    return 2;
  }

  absl::Status Value() {
    for (const char quote : {'\'', '"'}) {
      if (rest_.empty() || rest_[0] != quote) continue;
      rest_.remove_prefix(1);
      ASSIGN_OR_RETURN(const std::string text, String(quote));
      json_ += JsonString(text);
      return absl::OkStatus();
    }
    const bool is_dict = Take('{');
    if (!is_dict && !Take('[')) return Word();
    // A call's arguments are one level themselves.
    if (depth_ == kMaxToolCallDepth - 1) {
      return NotPython(
          absl::StrCat("it is nested more than ", kMaxToolCallDepth, " deep"));
    }
    ++depth_;
    RETURN_IF_ERROR(Elements(is_dict));
    --depth_;
    return absl::OkStatus();
  }

  // Reads the rest of a dict or of a list.
  absl::Status Elements(bool is_dict) {
    const char end = is_dict ? '}' : ']';
    json_ += is_dict ? '{' : '[';
    std::set<std::string> names;
    for (bool is_first = true; !Take(end); is_first = false) {
      if (!is_first) {
        if (!Take(',')) return NotPython("',' is missing in a list or a dict");
        if (Take(end)) break;
        json_ += ',';
      }
      if (is_dict) {
        const size_t begin = json_.size();
        RETURN_IF_ERROR(Value());
        if (json_[begin] != '"')
          return NotPython("a key of a dict is no string");
        if (!names.insert(json_.substr(begin)).second) {
          return NotPython("a key of a dict is there twice");
        }
        if (!Take(':')) return NotPython("':' is missing in a dict");
        json_ += ':';
      }
      RETURN_IF_ERROR(Value());
    }
    json_ += end;
    return absl::OkStatus();
  }

  absl::Status Word() {
    absl::string_view word = TakeWord();
    if (word == "True") word = "true";
    if (word == "False") word = "false";
    if (word == "None") word = "null";
    if (!CheckJson(word, 1).ok()) {
      return NotPython(absl::StrCat("'", absl::CEscape(word.substr(0, 64)),
                                    "' is no value"));
    }
    absl::StrAppend(&json_, word);
    return absl::OkStatus();
  }

  std::string json_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<ToolCall>> ParsePythonCalls(absl::string_view text) {
  return PythonReader(text).Calls();
}

}  // namespace plimsoll::worker
