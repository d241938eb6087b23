#include "worker/text/jinja/syntax/lexer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/jinja/characters.h"
#include "worker/text/jinja/line_error.h"
#include "worker/text/jinja/text.h"

namespace plimsoll::worker::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int DigitValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// The length of the character at the front of `text`, which is not empty.
size_t CharacterBytes(absl::string_view text) {
  size_t n = 1;
  while (n < text.size() &&
         (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) {
    ++n;
  }
  return n;
}

size_t SpaceBytes(absl::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const absl::string_view rest = text.substr(n);
    const absl::string_view character = rest.substr(0, CharacterBytes(rest));
    if (!IsSpace(character)) break;
    n += character.size();
  }
  return n;
}

absl::string_view WithoutTrailingSpace(absl::string_view text) {
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 &&
           (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
      --begin;
    }
    if (!IsSpace(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

// Newlines of any system become \n, and one at the end is dropped.
std::string WithPlainNewlines(absl::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// What a backslash and the letter after it stand for, or 0.
char SimpleEscape(char c) {
  constexpr absl::string_view kLetters = "\\'\"abfnrtv";
  constexpr absl::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const size_t at = kLetters.find(c);
  return at == absl::string_view::npos ? '\0' : kMeanings[at];
}

// Takes `most` digits of `base` at most from the front of `text`.
uint32_t TakeNumber(absl::string_view& text, int base, size_t most,
                    size_t& n_digits) {
  uint32_t value = 0;
  n_digits = 0;
  while (n_digits < most && n_digits < text.size() &&
         DigitValue(text[n_digits]) < base) {
    value = value * static_cast<uint32_t>(base) +
            static_cast<uint32_t>(DigitValue(text[n_digits++]));
  }
  text.remove_prefix(n_digits);
  return value;
}

// Takes an escape behind its backslash and appends its meaning.
// Errors: kInvalidArgument for a code point that cannot be.
absl::Status TakeEscape(absl::string_view& text, std::string& out) {
  const char c = text[0];
  if (c == '\n') {  // the line goes on
    text.remove_prefix(1);
    return absl::OkStatus();
  }
  if (const char simple = SimpleEscape(c)) {
    out += simple;
    text.remove_prefix(1);
    return absl::OkStatus();
  }
  const size_t n_wanted = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  const bool is_octal = c >= '0' && c <= '7';
  if (n_wanted == 0 && !is_octal) {  // not an escape: both stay
    if (c == 'N') return absl::InvalidArgumentError("\\N is not supported");
    out += '\\';
    return absl::OkStatus();
  }
  if (!is_octal) text.remove_prefix(1);
  size_t n_digits = 0;
  const uint32_t code =
      TakeNumber(text, is_octal ? 8 : 16, is_octal ? 3 : n_wanted, n_digits);
  if ((!is_octal && n_digits < n_wanted) || !IsCharacter(code)) {
    return absl::InvalidArgumentError("an escape is no character");
  }
  AppendUtf8(code, out);
  return absl::OkStatus();
}

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) RETURN_IF_ERROR(Root());
    Add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  absl::string_view Rest() const { return source_.substr(at_); }
  bool At(absl::string_view text) const {
    return absl::StartsWith(Rest(), text);
  }
  absl::Status Fail(absl::string_view what) const {
    return LineError(line_, what);
  }
  void Skip(size_t n) {
    const absl::string_view skipped = Rest().substr(0, n);
    line_ += static_cast<int>(std::count(skipped.begin(), skipped.end(), '\n'));
    if (n > 0) is_line_start_ = skipped.back() == '\n';
    at_ += n;
  }
  void Add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text)});
  }

  // Adds the text up to `end`, where a tag begins with the mark `mark` behind
  // its brace.
  void AddData(size_t end, char mark, bool is_variable) {
    absl::string_view text = source_.substr(at_, end - at_);
    absl::string_view kept = text;
    if (mark == '-') {
      kept = WithoutTrailingSpace(text);
    } else if (mark != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const bool has_newline = newline != absl::string_view::npos;
      const size_t begin = has_newline ? newline + 1 : 0;
      if ((has_newline || is_line_start_) &&
          SpaceBytes(text.substr(begin)) == text.size() - begin) {
        kept = text.substr(0, begin);
      }
    }
    if (!kept.empty()) Add(TokenKind::kData, std::string(kept));
    Skip(text.size());
  }

  // One run of text, and the tag behind it.
  absl::Status Root() {
    size_t begin = at_;
    while (true) {
      begin = source_.find('{', begin);
      if (begin == absl::string_view::npos || begin + 1 >= source_.size()) {
        Add(TokenKind::kData, std::string(Rest()));
        Skip(Rest().size());
        return absl::OkStatus();
      }
      const char kind = source_[begin + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++begin;
    }
    const char kind = source_[begin + 1];
    const char mark = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    AddData(begin, mark, kind == '{');
    if (kind == '%') {
      if (const size_t n = RawBegin()) return Raw(n);
    }
    const int line = line_;
    Skip(mark == '-' || mark == '+' ? 3 : 2);
    if (kind == '#') return Comment();
    tokens_.push_back(
        {kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin,
         line,
         {}});
    return Tag(kind == '{');
  }

  // Bytes of the end of a block tag at the front of `text`, with what white
  // space rules drop behind it, or 0.
  static size_t BlockEnd(absl::string_view text, absl::string_view end = "%}") {
    if (absl::StartsWith(text, absl::StrCat("-", end))) {
      return 3 + SpaceBytes(text.substr(3));
    }
    if (absl::StartsWith(text, absl::StrCat("+", end))) return 3;
    if (!absl::StartsWith(text, end)) return 0;
    return absl::StartsWith(text.substr(2), "\n") ? 3 : 2;
  }

  absl::Status Comment() {
    for (size_t i = 0; i < Rest().size(); ++i) {
      const char c = Rest()[i];
      if (c != '#' && c != '-' && c != '+') continue;
      const size_t n = BlockEnd(Rest().substr(i), "#}");
      if (n == 0) continue;
      Skip(i + n);
      return absl::OkStatus();
    }
    return Fail("Missing end of comment tag");
  }

  // Bytes of a tag with the only word `word` here, without its end, or 0.
  static size_t WordTag(absl::string_view text, absl::string_view word) {
    if (!absl::StartsWith(text, "{%")) return 0;
    size_t n = 2;
    if (text.size() > n && (text[n] == '-' || text[n] == '+')) ++n;
    n += SpaceBytes(text.substr(n));
    if (!absl::StartsWith(text.substr(n), word)) return 0;
    n += word.size();
    return n + SpaceBytes(text.substr(n));
  }

  // Bytes of a whole `{% raw %}` here, or 0.
  size_t RawBegin() const {
    const size_t n = WordTag(Rest(), "raw");
    if (n == 0) return 0;
    const absl::string_view end = Rest().substr(n);
    if (absl::StartsWith(end, "-%}")) return n + 3 + SpaceBytes(end.substr(3));
    return absl::StartsWith(end, "%}") ? n + 2 : 0;
  }

  // Text up to `{% endraw %}`.
  absl::Status Raw(size_t begin_bytes) {
    Skip(begin_bytes);
    size_t end = at_;
    while ((end = source_.find("{%", end)) != absl::string_view::npos) {
      const absl::string_view tag = source_.substr(end);
      const size_t n = WordTag(tag, "endraw");
      const size_t closing = n == 0 ? 0 : BlockEnd(tag.substr(n));
      if (closing > 0) {
        AddData(end, tag[2], /*is_variable=*/false);
        Skip(n + closing);
        return absl::OkStatus();
      }
      end += 2;
    }
    return Fail("Missing end of raw directive");
  }

  // Bytes of the end of this tag here, or 0.
  size_t TagEnd(bool is_variable) const {
    if (!open_.empty()) return 0;
    if (!is_variable) return BlockEnd(Rest());
    if (At("}}")) return 2;
    return At("-}}") ? 3 + SpaceBytes(Rest().substr(3)) : 0;
  }

  absl::Status Tag(bool is_variable) {
    open_.clear();
    while (at_ < source_.size()) {
      if (const size_t n = TagEnd(is_variable)) {
        Add(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
        Skip(n);
        return absl::OkStatus();
      }
      if (const size_t n = SpaceBytes(Rest())) {
        Skip(n);
      } else {
        RETURN_IF_ERROR(Inside());
      }
    }
    return absl::OkStatus();  // the parser misses the end
  }

  absl::Status Inside() {
    const char c = Rest()[0];
    if (IsDigit(c)) return Number();
    if (c == '\'' || c == '"') return String(c);
    if (const size_t n = NameBytes()) {
      Add(TokenKind::kName, std::string(Rest().substr(0, n)));
      Skip(n);
      return absl::OkStatus();
    }
    return Operator();
  }

  size_t NameBytes() const {
    size_t n = 0;
    while (n < Rest().size()) {
      const absl::string_view rest = Rest().substr(n);
      const size_t bytes = CharacterBytes(rest);
      if (!IsKind(rest.substr(0, bytes), CharacterKind::kWord)) break;
      n += bytes;
    }
    return n;
  }

  // Bytes of digits of `base`, with single underscores between them.
  static size_t DigitBytes(absl::string_view text, int base) {
    size_t n = 0;
    while (n < text.size()) {
      const bool is_joined = n > 0 && text[n] == '_' && n + 1 < text.size();
      const size_t at = is_joined ? n + 1 : n;
      if (DigitValue(text[at]) >= base) break;
      n = at + 1;
    }
    return n;
  }

  // Bytes of a number with a fraction or an exponent here, or 0.
  size_t FloatBytes() const {
    const absl::string_view text = Rest();
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;
    const size_t whole = DigitBytes(text, 10);
    size_t n = whole;
    if (n < text.size() && text[n] == '.') {
      const size_t fraction = DigitBytes(text.substr(n + 1), 10);
      if (fraction > 0) n += 1 + fraction;
    }
    const size_t before = n;
    if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
      size_t begin = n + 1;
      if (begin < text.size() && (text[begin] == '+' || text[begin] == '-')) {
        ++begin;
      }
      const size_t exponent = DigitBytes(text.substr(begin), 10);
      if (exponent > 0) n = begin + exponent;
    }
    return n > before || before > whole ? n : 0;
  }

  absl::Status Number() {
    std::string digits;
    if (const size_t n = FloatBytes()) {
      digits = std::string(Rest().substr(0, n));
      digits.erase(std::remove(digits.begin(), digits.end(), '_'),
                   digits.end());
      Add(TokenKind::kFloat);
      tokens_.back().number = std::strtod(digits.c_str(), nullptr);
      Skip(n);
      return absl::OkStatus();
    }
    const absl::string_view text = Rest();
    const char prefix =
        text.size() > 1
            ? absl::ascii_tolower(static_cast<unsigned char>(text[1]))
            : '\0';
    int base = 10;
    if (text[0] == '0') {
      base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 1;
    }
    size_t skipped = base == 10 || base == 1 ? 0 : 2;
    if (text.size() > 2 && skipped == 2 && text[2] == '_') skipped = 3;
    size_t n = DigitBytes(text.substr(skipped), base);
    if (n == 0) {  // the 0 alone
      base = 10;
      skipped = 0;
      n = 1;
    }
    uint64_t value = 0;
    for (const char c : text.substr(skipped, n)) {
      if (c == '_') continue;
      if (__builtin_mul_overflow(value, static_cast<uint64_t>(base), &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(DigitValue(c)),
                                 &value) ||
          value > INT64_MAX) {
        return Fail("a number is beyond the limit of 64 bits");
      }
    }
    Add(TokenKind::kInteger);
    tokens_.back().integer = static_cast<int64_t>(value);
    Skip(skipped + n);
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    absl::string_view text = Rest().substr(1);
    std::string value;
    while (!text.empty() && text[0] != quote) {
      if (text[0] != '\\') {
        value += text[0];
        text.remove_prefix(1);
        continue;
      }
      text.remove_prefix(1);
      if (text.empty()) break;
      if (const absl::Status status = TakeEscape(text, value); !status.ok()) {
        return Fail(status.message());
      }
    }
    if (text.empty()) return Fail("a string does not end");
    Add(TokenKind::kString, std::move(value));
    Skip(Rest().size() - text.size() + 1);
    return absl::OkStatus();
  }

  absl::Status Operator() {
    constexpr absl::string_view kTwo[] = {"**", "//", "==", "!=", ">=", "<="};
    constexpr absl::string_view kOne = "+-/*%~[](){}><=.:|,;";
    for (const absl::string_view two : kTwo) {
      if (!At(two)) continue;
      Add(TokenKind::kOperator, std::string(two));
      Skip(2);
      return absl::OkStatus();
    }
    const char c = Rest()[0];
    if (kOne.find(c) == absl::string_view::npos) {
      return Fail(absl::StrCat("unexpected char '",
                               Rest().substr(0, CharacterBytes(Rest())), "'"));
    }
    if (c == '(') open_ += ')';
    if (c == '[') open_ += ']';
    if (c == '{') open_ += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) {
        return Fail(absl::StrCat("unexpected '", std::string(1, c), "'"));
      }
      open_.pop_back();
    }
    Add(TokenKind::kOperator, std::string(1, c));
    Skip(1);
    return absl::OkStatus();
  }

  const absl::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;  // the last tag ended with a newline
  std::string open_;           // closing brackets that are awaited
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source) {
  const std::string text = WithPlainNewlines(source);
  return Lexer(text).Run();
}

}  // namespace plimsoll::worker::jinja
