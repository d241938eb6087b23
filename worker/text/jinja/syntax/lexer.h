// Cuts a template into tokens: the text between tags, and the parts of tags.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_LEXER_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker::jinja {

enum class TokenKind {
  kData,  // text between tags, in `text`
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // its value is in `text`
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;          // the first is 1
  std::string text;  // text of data, names, strings and operators
  int64_t integer = 0;
  double number = 0;
};

// Cuts `source`, which is valid UTF-8, with the white space rules of chat
// templates: trim_blocks and lstrip_blocks are on, and one newline at the end
// is dropped. The last token is kEnd.
// Errors: kInvalidArgument naming the line.
// Source: the lexer of jinja2 3.1.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_LEXER_H_
