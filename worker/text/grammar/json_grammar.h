// JSON in one canonical spelling, as parts of a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_GRAMMAR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/text/grammar/grammar_builder.h"

namespace plimsoll::worker {

// Writes JSON's parts into a builder, which outlives it. Rules that are used
// in many places are made once.
class JsonGrammar {
 public:
  using Expr = GrammarBuilder::Expr;

  // Digits before and after the point, and of an exponent: a number that goes
  // on for ever is of no use, and 16 digits are what a double holds.
  static constexpr int kMaxDigits = 16;
  static constexpr int kMaxExponentDigits = 2;
  // Integers that have at most kMaxDigits.
  static constexpr int64_t kMaxInteger = 9'999'999'999'999'999;

  explicit JsonGrammar(GrammarBuilder& builder) : builder_(builder) {}

  // What may stand between tokens: nothing, a space, or a line feed and at most
  // 20 spaces. Unlimited, a model might never end it.
  Expr Space();
  // One code point of `set` as a string has it: as itself, or where that is
  // impossible by its shortest escape.
  Expr StringChar(const CodePoints& set);
  // Any string of `min` to `max` code points.
  Expr String(int64_t min = 0, int64_t max = GrammarBuilder::kUnlimited);
  // Any string but these.
  Expr StringExcept(const std::vector<std::string>& excluded);
  Expr Number();
  Expr Integer();
  // Integers in [min, max], which are in order and within kMaxInteger.
  Expr IntegerIn(int64_t min, int64_t max);
  Expr Boolean();
  Expr Null();
  // "[" items "]", where `items` (with commas) cannot be empty.
  Expr Array(std::optional<Expr> items, bool may_be_empty);
  // The same in braces.
  Expr Object(std::optional<Expr> members, bool may_be_empty);
  // key ":" value; the key is a whole string.
  Expr Member(Expr key, Expr value);
  // Space included.
  Expr Comma();
  // Any value.
  Expr Any();

 private:
  Expr Bracketed(const char* open, std::optional<Expr> inner, bool may_be_empty,
                 const char* close);
  Expr Digits(int64_t min, int64_t max);
  Expr Once(std::optional<int32_t>& rule, const char* name,
            Expr (JsonGrammar::*make)());
  Expr MakeSpace();
  Expr MakeNumber();
  Expr MakeInteger();
  Expr MakeAnyChar();
  Expr MakeAny();
  // The rest of a string of which the code points before `depth` are those of
  // `names`, sorted: anything but the rest of one of them.
  Expr ExceptFrom(std::span<const std::vector<uint32_t>> names, size_t depth);
  // A string from here on that begins with none of `excluded`.
  Expr OtherFrom(const CodePoints& excluded);
  // Numbers of as many digits as `low` and `high` have, between them.
  Expr DigitsBetween(const std::string& low, const std::string& high);
  Expr Naturals(int64_t min, int64_t max);

  GrammarBuilder& builder_;
  std::optional<int32_t> space_;
  std::optional<int32_t> number_;
  std::optional<int32_t> integer_;
  std::optional<int32_t> any_char_;
  std::optional<int32_t> any_;
  // The rules of OtherFrom, by what is excluded.
  std::map<std::vector<uint32_t>, int32_t> others_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_JSON_GRAMMAR_H_
