#include "worker/text/chat/tool_call.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "worker/text/chat/text_cursor.h"

namespace plimsoll::worker {
namespace {

constexpr size_t kShownBytes = 64;  // bytes shown of an invalid text

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Takes digits from the front; false if there are none.
bool TakeDigits(absl::string_view& text) {
  const size_t before = text.size();
  while (!text.empty() && IsDigit(text[0])) text.remove_prefix(1);
  return text.size() < before;
}

// True if `text` is a number as JSON writes it.
bool IsNumber(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  if (!absl::ConsumePrefix(&text, "0") && !TakeDigits(text)) return false;
  if (absl::ConsumePrefix(&text, ".") && !TakeDigits(text)) return false;
  if (absl::ConsumePrefix(&text, "e") || absl::ConsumePrefix(&text, "E")) {
    if (!absl::ConsumePrefix(&text, "+")) absl::ConsumePrefix(&text, "-");
    if (!TakeDigits(text)) return false;
  }
  return text.empty();
}

// Reads a call from the front of its text and writes JSON.
class Parser : TextCursor {
 public:
  explicit Parser(absl::string_view text) : TextCursor(text) {}

  absl::StatusOr<ToolCall> Call() {
    ToolCall call;
    SkipSpace();
    if (!absl::ConsumePrefix(&rest_, "call:")) {
      return Bad("a call begins with 'call:'");
    }
    call.name = std::string(TakePlain());
    RETURN_IF_ERROR(CheckToolName(call.name));
    if (rest_.empty() || rest_[0] != '{') {
      return Bad("the name is not followed by '{'");
    }
    RETURN_IF_ERROR(Value());
    if (!rest_.empty()) {
      return Bad(absl::StrCat("'", absl::CEscape(Shown(rest_)),
                              "' follows the closing '}'"));
    }
    call.arguments = std::move(json_);
    return call;
  }

 private:
  static absl::string_view Shown(absl::string_view text) {
    return text.substr(0, kShownBytes);
  }

  // Takes the text before the next character of the syntax.
  absl::string_view TakePlain() {
    constexpr absl::string_view kSyntax = ":,{}[]\xFF";
    const size_t n = std::min(rest_.find_first_of(kSyntax), rest_.size());
    const absl::string_view plain =
        absl::StripTrailingAsciiWhitespace(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return plain;
  }

  // Takes a string; its opening mark has been taken.
  absl::StatusOr<absl::string_view> TakeString() {
    const size_t n = rest_.find(kEscapeMark);
    if (n == absl::string_view::npos) return Bad("a string is not closed");
    const absl::string_view text = rest_.substr(0, n);
    rest_.remove_prefix(n + 1);
    SkipSpace();
    return text;
  }

  // Takes the mark that opens a string; white space after it is not skipped.
  bool TakeMark() {
    if (rest_.empty() || rest_[0] != kEscapeMark) return false;
    rest_.remove_prefix(1);
    return true;
  }

  absl::StatusOr<std::string> Key() {
    if (TakeMark()) {
      ASSIGN_OR_RETURN(const absl::string_view text, TakeString());
      return std::string(text);
    }
    const absl::string_view plain = TakePlain();
    if (plain.empty()) return Bad("a value has no name");
    return std::string(plain);
  }

  absl::Status Members() {
    json_ += '{';
    std::set<std::string> names;
    while (!Take('}')) {
      if (!names.empty()) {
        if (!Take(',')) return Bad("',' or '}' is missing in an object");
        json_ += ',';
      }
      ASSIGN_OR_RETURN(const std::string key, Key());
      const std::string quoted = JsonString(key);  // others compare this form
      if (!names.insert(quoted).second) {
        return Bad(
            absl::StrCat("'", absl::CEscape(Shown(key)), "' is named twice"));
      }
      if (!Take(':')) {
        return Bad(absl::StrCat("'", absl::CEscape(Shown(key)),
                                "' is not followed by ':'"));
      }
      absl::StrAppend(&json_, quoted, ":");
      RETURN_IF_ERROR(Value());
    }
    json_ += '}';
    return absl::OkStatus();
  }

  absl::Status Elements() {
    json_ += '[';
    for (bool is_first = true; !Take(']'); is_first = false) {
      if (!is_first) {
        if (!Take(',')) return Bad("',' or ']' is missing in a list");
        json_ += ',';
      }
      RETURN_IF_ERROR(Value());
    }
    json_ += ']';
    return absl::OkStatus();
  }

  absl::Status Plain() {
    const absl::string_view plain = TakePlain();
    const bool is_word = plain == "true" || plain == "false" || plain == "null";
    if (!is_word && !IsNumber(plain)) {
      return Bad(absl::StrCat("'", absl::CEscape(Shown(plain)),
                              "' is no number, true, false, null or string "
                              "between its marks"));
    }
    absl::StrAppend(&json_, plain);
    return absl::OkStatus();
  }

  absl::Status Value() {
    if (TakeMark()) {
      ASSIGN_OR_RETURN(const absl::string_view text, TakeString());
      absl::StrAppend(&json_, JsonString(text));
      return absl::OkStatus();
    }
    const bool is_object = Take('{');
    if (!is_object && !Take('[')) return Plain();
    if (depth_ == kMaxToolCallDepth) {
      return Bad(
          absl::StrCat("it is nested more than ", kMaxToolCallDepth, " deep"));
    }
    ++depth_;
    RETURN_IF_ERROR(is_object ? Members() : Elements());
    --depth_;
    return absl::OkStatus();
  }

  std::string json_;
  int depth_ = 0;
};

}  // namespace

bool IsToolName(absl::string_view name) {
  if (name.empty() || static_cast<int64_t>(name.size()) > kMaxToolNameBytes) {
    return false;
  }
  if (!IsLetter(name[0])) return false;
  for (const char c : name) {
    if (!IsLetter(c) && !IsDigit(c) && c != '-' && c != '.') return false;
  }
  return true;
}

absl::Status CheckToolName(absl::string_view name) {
  if (IsToolName(name)) return absl::OkStatus();
  return Bad(absl::StrCat("'", absl::CEscape(name.substr(0, kShownBytes)),
                          "' is no name of a tool"));
}

std::string JsonString(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/false,
            nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<ToolCall> ParseToolCall(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxToolCallBytes) {
    return Bad(
        absl::StrCat("the call is longer than ", kMaxToolCallBytes, " bytes"));
  }
  return Parser(text).Call();
}

}  // namespace plimsoll::worker
