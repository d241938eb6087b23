// JSON in one spelling, as parts of a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_GRAMMAR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/json_spelling.h"

namespace plimsoll::worker {

// Writes JSON's parts into a builder, which outlives it. A rule that is used in
// many places is made once.
class JsonGrammar {
 public:
  using Expr = GrammarBuilder::Expr;

  // The most digits before the point and after it, and in an exponent. A double
  // holds 16 digits, and a number must end.
  static constexpr int kMaxDigits = 16;
  static constexpr int kMaxExponentDigits = 2;

  explicit JsonGrammar(GrammarBuilder& builder, JsonSpelling spelling = {})
      : builder_(builder), spelling_(std::move(spelling)) {}

  const JsonSpelling& spelling() const { return spelling_; }
  // The white space between tokens: nothing, a space, or a line feed and at
  // most 20 spaces. Without a limit a model might never end the white space.
  Expr Space();
  // One code point of `set` in a string: the code point itself or, if JSON
  // forbids that, its shortest escape.
  Expr StringChar(const CodePoints& set);
  // A string of these characters, with its quotes.
  Expr Quoted(Expr chars);
  // The name `text` of a member.
  Expr Key(absl::string_view text);
  // The string `text`, which is UTF-8, with its quotes.
  Expr Text(absl::string_view text);
  // Any string of `min` to `max` code points.
  Expr String(int64_t min = 0, int64_t max = GrammarBuilder::kUnlimited);
  // Any string except `excluded`, which is empty for raw strings.
  Expr StringExcept(const std::vector<std::string>& excluded);
  Expr Number();
  Expr Integer();
  Expr Boolean();
  Expr True();
  Expr False();
  Expr Null();
  // "[" items "]"; `items` (with commas) cannot be empty. `may_be_empty` also
  // allows none.
  Expr Array(std::optional<Expr> items, bool may_be_empty);
  // "{" members "}"; `members` (with commas) cannot be empty. `may_be_empty`
  // also allows none.
  Expr Object(std::optional<Expr> members, bool may_be_empty);
  // key ":" value; the key is a whole string.
  Expr Member(Expr key, Expr value);
  // A comma with its space.
  Expr Comma();
  // Any value.
  Expr Any();

 private:
  static constexpr int64_t kBlock = 256;

  Expr Bracketed(absl::string_view open, std::optional<Expr> inner,
                 bool may_be_empty, absl::string_view close);
  Expr Digits(int64_t min, int64_t max);
  Expr Once(std::optional<int32_t>& rule, const char* name,
            Expr (JsonGrammar::*make)());
  Expr MakeSpace();
  Expr MakeNumber();
  Expr MakeInteger();
  Expr MakeWhole();
  Expr StringText(uint32_t code_point);
  Expr MakeAnyChar();
  Expr MakeRawString();
  Expr AnyKey();
  Expr MakeAny();
  // The rest of a string whose code points before `depth` are those of the
  // sorted `names`: any rest except the rest of one of the names.
  Expr ExceptFrom(std::span<const std::vector<uint32_t>> names, size_t depth);
  // The rest of a string that does not begin with a code point of `excluded`.
  Expr OtherFrom(const CodePoints& excluded);
  Expr MakeOther(const CodePoints& excluded);
  // Any characters up to the end of a string, and the same after a character
  // that is not ASCII.
  Expr MakeRest();
  Expr MakeWideRest();
  // Exactly `n`, or at most `n`, code points of a string. Many are counted in
  // blocks, which are stored once.
  Expr Exactly(int64_t n);
  Expr UpTo(int64_t n);
  Expr MakeBlock();
  Expr MakeStringChar(const CodePoints& wanted);
  // A code point of `set` as \\u and hexadecimal digits, or two of these.
  void AddEscapes(const CodePoints& set, std::vector<Expr>& choices);

  GrammarBuilder& builder_;
  const JsonSpelling spelling_;
  std::optional<int32_t> space_;
  std::optional<int32_t> number_;
  std::optional<int32_t> integer_;
  std::optional<int32_t> any_char_;
  std::optional<int32_t> rest_;
  std::optional<int32_t> wide_rest_;
  std::optional<int32_t> raw_string_;
  std::optional<int32_t> block_;
  std::optional<int32_t> any_;
  // The rules of strings, by their lengths.
  std::map<std::pair<int64_t, int64_t>, int32_t> lengths_;
  // The rules of sets of code points, by their ranges.
  std::map<std::vector<uint32_t>, int32_t> chars_;
  // The rules of OtherFrom, by `excluded`.
  std::map<std::vector<uint32_t>, int32_t> others_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_GRAMMAR_H_
