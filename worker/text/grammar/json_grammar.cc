#include "worker/text/grammar/json_grammar.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

constexpr int kMaxIndent = 20;

// Characters that a string holds as a backslash and a letter.
struct ShortEscape {
  uint32_t code_point;
  unsigned char letter;
};
constexpr ShortEscape kShortEscapes[] = {
    {'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
    {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'},
};

bool HasShortEscape(uint32_t code_point) {
  return std::any_of(
      std::begin(kShortEscapes), std::end(kShortEscapes),
      [&](const ShortEscape& one) { return one.code_point == code_point; });
}

bool Contains(const CodePoints& set, uint32_t code_point) {
  return std::any_of(set.begin(), set.end(), [&](const CodePointRange& r) {
    return r.first <= code_point && code_point <= r.last;
  });
}

std::vector<uint32_t> Decoded(absl::string_view text) {
  std::vector<uint32_t> out;
  while (!text.empty()) {
    const std::optional<uint32_t> c = TakeCodePoint(text);
    if (!c) break;
    out.push_back(*c);
  }
  return out;
}

}  // namespace

Expr JsonGrammar::Once(std::optional<int32_t>& rule, const char* name,
                       Expr (JsonGrammar::*make)()) {
  if (!rule) {
    rule = builder_.NewRule(name);
    builder_.Define(*rule, (this->*make)());
  }
  return builder_.Rule(*rule);
}

Expr JsonGrammar::Space() {
  return Once(space_, "space", &JsonGrammar::MakeSpace);
}

Expr JsonGrammar::MakeSpace() {
  const Expr space = builder_.Literal(" ");
  return builder_.Choice(
      {builder_.Literal(""), space,
       builder_.Sequence(
           {builder_.Literal("\n"), builder_.Repeat(space, 0, kMaxIndent)})});
}

Expr JsonGrammar::StringChar(const CodePoints& set) {
  if (!builder_.ok()) return builder_.Literal("");
  const CodePoints wanted = Normalized(set);
  const CodePoints escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  std::vector<Expr> choices;
  if (const CodePoints plain = Intersection(wanted, Complement(escaped));
      !plain.empty()) {
    choices.push_back(builder_.Chars(plain));
  }
  CodePoints letters;
  for (const ShortEscape& one : kShortEscapes) {
    if (!Contains(wanted, one.code_point)) continue;
    const uint32_t letter = one.letter;
    letters.push_back({letter, letter});
  }
  const Expr backslash = builder_.Literal("\\");
  if (!letters.empty()) {
    choices.push_back(builder_.Sequence({backslash, builder_.Chars(letters)}));
  }
  for (uint32_t high = 0; high < 2; ++high) {
    CodePoints low_digits;
    for (uint32_t c = 16 * high; c < 16 * (high + 1); ++c) {
      if (HasShortEscape(c) || !Contains(wanted, c)) continue;
      const uint32_t low = c % 16;
      const uint32_t digit = low < 10 ? '0' + low : 'a' + low - 10;
      low_digits.push_back({digit, digit});
    }
    if (low_digits.empty()) continue;
    choices.push_back(
        builder_.Sequence({backslash, builder_.Literal(high ? "u001" : "u000"),
                           builder_.Chars(low_digits)}));
  }
  return builder_.Choice(std::move(choices));
}

Expr JsonGrammar::MakeAnyChar() { return StringChar(Complement({})); }

Expr JsonGrammar::String(int64_t min, int64_t max) {
  const Expr any_char = Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
  const Expr quote = builder_.Literal("\"");
  return builder_.Sequence({quote, builder_.Repeat(any_char, min, max), quote});
}

Expr JsonGrammar::StringExcept(const std::vector<std::string>& excluded) {
  std::vector<std::vector<uint32_t>> names;
  names.reserve(excluded.size());
  for (const std::string& name : excluded) names.push_back(Decoded(name));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) return String();
  const Expr quote = builder_.Literal("\"");
  return builder_.Sequence({quote, ExceptFrom(names, 0), quote});
}

Expr JsonGrammar::OtherFrom(const CodePoints& excluded) {
  std::vector<uint32_t> key;
  key.reserve(excluded.size());
  for (const CodePointRange& one : excluded) key.push_back(one.first);
  const auto [found, is_new] = others_.try_emplace(std::move(key), 0);
  if (is_new) {
    const Expr any_char =
        Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
    found->second = builder_.NewRule("other key");
    builder_.Define(
        found->second,
        builder_.Sequence(
            {StringChar(Complement(excluded)),
             builder_.Repeat(any_char, 0, GrammarBuilder::kUnlimited)}));
  }
  return builder_.Rule(found->second);
}

// The recursion is as deep as a name is long; the caller limits that.
Expr JsonGrammar::ExceptFrom(std::span<const std::vector<uint32_t>> names,
                             size_t depth) {
  if (!builder_.ok()) return builder_.Literal("");
  std::vector<Expr> choices;
  CodePoints next;
  size_t i = 0;
  // A name that ends here sorts first.
  if (names[0].size() == depth) {
    ++i;
  } else {
    choices.push_back(builder_.Literal(""));
  }
  while (i < names.size()) {
    const uint32_t c = names[i][depth];
    const size_t begin = i;
    while (i < names.size() && names[i][depth] == c) ++i;
    next.push_back({c, c});
    const int32_t rule = builder_.NewRule("other key");
    builder_.Define(rule,
                    ExceptFrom(names.subspan(begin, i - begin), depth + 1));
    choices.push_back(
        builder_.Sequence({StringChar({{c, c}}), builder_.Rule(rule)}));
  }
  choices.push_back(OtherFrom(next));
  return builder_.Choice(std::move(choices));
}

Expr JsonGrammar::Digits(int64_t min, int64_t max) {
  return builder_.Repeat(builder_.Chars({{'0', '9'}}), min, max);
}

Expr JsonGrammar::Integer() {
  return Once(integer_, "integer", &JsonGrammar::MakeInteger);
}

Expr JsonGrammar::MakeInteger() {
  return builder_.Sequence(
      {builder_.Optional(builder_.Literal("-")),
       builder_.Choice({builder_.Literal("0"),
                        builder_.Sequence({builder_.Chars({{'1', '9'}}),
                                           Digits(0, kMaxDigits - 1)})})});
}

Expr JsonGrammar::Number() {
  return Once(number_, "number", &JsonGrammar::MakeNumber);
}

Expr JsonGrammar::MakeNumber() {
  return builder_.Sequence(
      {MakeInteger(),
       builder_.Optional(
           builder_.Sequence({builder_.Literal("."), Digits(1, kMaxDigits)})),
       builder_.Optional(builder_.Sequence(
           {builder_.Chars({{'E', 'E'}, {'e', 'e'}}),
            builder_.Optional(builder_.Chars({{'+', '+'}, {'-', '-'}})),
            Digits(1, kMaxExponentDigits)}))});
}

// The recursion is as deep as the number of digits.
Expr JsonGrammar::DigitsBetween(const std::string& low,
                                const std::string& high) {
  if (low.empty()) return builder_.Literal("");
  const auto n_rest = static_cast<int64_t>(low.size()) - 1;
  const std::string low_rest = low.substr(1);
  const std::string high_rest = high.substr(1);
  const auto with_first = [this](char digit, Expr rest) {
    return builder_.Sequence({builder_.Literal(std::string(1, digit)), rest});
  };
  if (low[0] == high[0]) {
    return with_first(low[0], DigitsBetween(low_rest, high_rest));
  }
  const std::string nines(low_rest.size(), '9');
  const std::string zeros(low_rest.size(), '0');
  char first = low[0];
  char last = high[0];
  std::vector<Expr> choices;
  if (low_rest != zeros) {
    choices.push_back(with_first(first++, DigitsBetween(low_rest, nines)));
  }
  if (high_rest != nines) {
    choices.push_back(with_first(last--, DigitsBetween(zeros, high_rest)));
  }
  if (first <= last) {
    choices.push_back(builder_.Sequence(
        {builder_.Chars(
             {{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}}),
         Digits(n_rest, n_rest)}));
  }
  return builder_.Choice(std::move(choices));
}

Expr JsonGrammar::Naturals(int64_t min, int64_t max) {
  std::vector<Expr> choices;
  int64_t first_longer = 10;  // the first with one digit more than `min`
  while (min <= max) {
    while (first_longer <= min) first_longer *= 10;
    const int64_t last = std::min(max, first_longer - 1);
    choices.push_back(DigitsBetween(absl::StrCat(min), absl::StrCat(last)));
    min = last + 1;
  }
  return builder_.Choice(std::move(choices));
}

Expr JsonGrammar::IntegerIn(int64_t min, int64_t max) {
  std::vector<Expr> choices;
  if (min < 0) {
    choices.push_back(builder_.Sequence(
        {builder_.Literal("-"), Naturals(std::max<int64_t>(-max, 1), -min)}));
  }
  if (max >= 0) choices.push_back(Naturals(std::max<int64_t>(min, 0), max));
  return builder_.Choice(std::move(choices));
}

Expr JsonGrammar::Boolean() {
  return builder_.Choice({builder_.Literal("true"), builder_.Literal("false")});
}

Expr JsonGrammar::Null() { return builder_.Literal("null"); }

Expr JsonGrammar::Bracketed(const char* open, std::optional<Expr> inner,
                            bool may_be_empty, const char* close) {
  std::vector<Expr> choices;
  if (may_be_empty) choices.push_back(builder_.Literal(""));
  if (inner) choices.push_back(builder_.Sequence({Space(), *inner, Space()}));
  return builder_.Sequence({builder_.Literal(open),
                            builder_.Choice(std::move(choices)),
                            builder_.Literal(close)});
}

Expr JsonGrammar::Array(std::optional<Expr> items, bool may_be_empty) {
  return Bracketed("[", items, may_be_empty, "]");
}

Expr JsonGrammar::Object(std::optional<Expr> members, bool may_be_empty) {
  return Bracketed("{", members, may_be_empty, "}");
}

Expr JsonGrammar::Member(Expr key, Expr value) {
  return builder_.Sequence({key, builder_.Literal(":"), Space(), value});
}

Expr JsonGrammar::Comma() {
  return builder_.Sequence({builder_.Literal(","), Space()});
}

Expr JsonGrammar::Any() { return Once(any_, "value", &JsonGrammar::MakeAny); }

Expr JsonGrammar::MakeAny() {
  const Expr value = builder_.Rule(*any_);
  const auto list_of = [&](Expr one) {
    return builder_.Sequence(
        {one, builder_.Repeat(builder_.Sequence({Comma(), one}), 0,
                              GrammarBuilder::kUnlimited)});
  };
  return builder_.Choice(
      {Object(list_of(Member(String(), value)), /*may_be_empty=*/true),
       Array(list_of(value), /*may_be_empty=*/true), String(), Number(),
       Boolean(), Null()});
}

}  // namespace plimsoll::worker
