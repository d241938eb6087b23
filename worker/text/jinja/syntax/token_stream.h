// The tokens of a template, for its parsers.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TOKEN_STREAM_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TOKEN_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/text/jinja/line_error.h"
#include "worker/text/jinja/syntax/lexer.h"

namespace plimsoll::worker::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens)
      : tokens_(std::move(tokens)) {}

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  int line() const { return Peek().line; }
  Token Next() {
    Token token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool Is(TokenKind kind) const { return Peek().kind == kind; }
  bool IsOperator(absl::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kOperator && Peek(ahead).text == text;
  }
  bool IsName(absl::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == text;
  }
  bool TakeOperator(absl::string_view text) {
    const bool found = IsOperator(text);
    if (found) Next();
    return found;
  }
  bool TakeName(absl::string_view text) {
    const bool found = IsName(text);
    if (found) Next();
    return found;
  }
  absl::Status ExpectOperator(absl::string_view text) {
    return TakeOperator(text) ? absl::OkStatus() : Expected(text);
  }
  absl::Status ExpectName(absl::string_view text) {
    return TakeName(text) ? absl::OkStatus() : Expected(text);
  }
  absl::Status Expect(TokenKind kind, absl::string_view text) {
    if (!Is(kind)) return Expected(text);
    Next();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> TakeAnyName() {
    if (!Is(TokenKind::kName)) return Expected("name");
    return Next().text;
  }
  absl::Status Fail(absl::string_view what) const {
    return LineError(line(), what);
  }

 private:
  absl::Status Expected(absl::string_view wanted) const {
    if (Is(TokenKind::kEnd)) {
      return Fail(
          absl::StrCat("unexpected end of template, expected '", wanted, "'"));
    }
    return Fail(absl::StrCat("expected token '", wanted, "', got ", Shown()));
  }
  std::string Shown() const {
    switch (Peek().kind) {
      case TokenKind::kVariableEnd:
        return "end of print statement";
      case TokenKind::kBlockEnd:
        return "end of statement block";
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return "a number";
      default:
        return absl::StrCat("'", Peek().text.substr(0, 64), "'");
    }
  }

  std::vector<Token> tokens_;  // the last is kEnd
  size_t at_ = 0;
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TOKEN_STREAM_H_
