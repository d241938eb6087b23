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
  // Sets that need many instructions are rules.
  const bool is_small = !wanted.empty() && wanted.back().last < 0x80 &&
                        wanted.front().first >= 0x20 && !any_spelling_;
  if (is_small) return MakeStringChar(wanted);
  std::vector<uint32_t> key;
  for (const CodePointRange& one : wanted) {
    key.push_back(one.first);
    key.push_back(one.last);
  }
  const auto [found, is_new] = chars_.try_emplace(std::move(key), 0);
  if (is_new) {
    found->second = builder_.NewRule("character");
    builder_.Define(found->second, MakeStringChar(wanted));
  }
  return builder_.Rule(found->second);
}

Expr JsonGrammar::MakeStringChar(const CodePoints& wanted) {
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
  if (any_spelling_) AddEscapes(wanted, choices);
  return builder_.Choice(std::move(choices));
}

namespace {

// What a digit of an escape may be.
CodePoints HexDigits(uint32_t first, uint32_t last) {
  CodePoints digits;
  for (uint32_t digit = first; digit <= last; ++digit) {
    if (digit < 10) {
      digits.push_back({'0' + digit, '0' + digit});
    } else {
      digits.push_back({'a' + digit - 10, 'a' + digit - 10});
      digits.push_back({'A' + digit - 10, 'A' + digit - 10});
    }
  }
  return digits;
}

// The numbers from `first` to `last`, with `n` hexadecimal digits. The
// recursion is as deep as there are digits.
Expr HexBetween(uint32_t first, uint32_t last, int n, GrammarBuilder& builder) {
  if (n == 0) return builder.Literal("");
  const uint32_t unit = uint32_t{1} << (4 * (n - 1));
  std::vector<Expr> choices;
  while (first <= last) {
    const uint32_t digit = first / unit;
    // Digits below which everything may follow are one choice.
    uint32_t last_digit = digit;
    if (first % unit == 0) {
      while ((last_digit + 2) * unit - 1 <= last) ++last_digit;
    }
    const uint32_t end = std::min(last, (last_digit + 1) * unit - 1);
    choices.push_back(builder.Sequence(
        {builder.Chars(HexDigits(digit, last_digit)),
         HexBetween(first % unit, end - last_digit * unit, n - 1, builder)}));
    first = end + 1;
  }
  return builder.Choice(std::move(choices));
}

}  // namespace

void JsonGrammar::AddEscapes(const CodePoints& set,
                             std::vector<Expr>& choices) {
  if (Contains(set, '/')) choices.push_back(builder_.Literal("\\/"));
  const Expr escape = builder_.Literal("\\u");
  for (const CodePointRange& range : Intersection(set, {{0, 0xFFFF}})) {
    choices.push_back(builder_.Sequence(
        {escape, HexBetween(range.first, range.last, 4, builder_)}));
  }
  for (const CodePointRange& range :
       Intersection(set, {{0x10000, kMaxCodePoint}})) {
    // Pairs of surrogates. Source: RFC 8259, 7.
    for (uint32_t at = range.first; at <= range.last;) {
      const uint32_t high = (at - 0x10000) >> 10;
      uint32_t end = std::min(range.last, 0x10000 + (high << 10) + 0x3FF);
      uint32_t last_high = high;
      if ((at & 0x3FF) == 0) {
        // Halves below which everything may follow are one choice.
        while (end + 0x400 <= range.last) {
          end += 0x400;
          ++last_high;
        }
      }
      const uint32_t low = at & 0x3FF;
      const uint32_t last_low = last_high > high ? 0x3FF : end & 0x3FF;
      if (last_high > high) end = 0x10000 + (last_high << 10) + 0x3FF;
      choices.push_back(builder_.Sequence(
          {escape, HexBetween(0xD800 + high, 0xD800 + last_high, 4, builder_),
           escape, HexBetween(0xDC00 + low, 0xDC00 + last_low, 4, builder_)}));
      at = end + 1;
    }
  }
}

Expr JsonGrammar::Text(absl::string_view text) {
  const Expr quote = builder_.Literal("\"");
  std::vector<Expr> parts = {quote};
  for (const uint32_t c : Decoded(text)) {
    parts.push_back(StringText(c));
  }
  parts.push_back(quote);
  return builder_.Sequence(std::move(parts));
}

Expr JsonGrammar::StringText(uint32_t code_point) {
  if (any_spelling_) return StringChar({{code_point, code_point}});
  // One spelling: a literal, which joins its neighbours.
  for (const ShortEscape& one : kShortEscapes) {
    if (one.code_point != code_point) continue;
    return builder_.Literal(
        absl::StrCat("\\", std::string(1, static_cast<char>(one.letter))));
  }
  if (code_point < 0x20) {
    return builder_.Literal(
        absl::StrCat("\\u", absl::Hex(code_point, absl::kZeroPad4)));
  }
  std::string bytes;
  AppendUtf8(code_point, bytes);
  return builder_.Literal(bytes);
}

Expr JsonGrammar::MakeAnyChar() { return StringChar(Complement({})); }

Expr JsonGrammar::String(int64_t min, int64_t max) {
  const Expr quote = builder_.Literal("\"");
  if (min == 0 && max == GrammarBuilder::kUnlimited) {
    const Expr any_char =
        Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
    return builder_.Sequence({quote, builder_.Repeat(any_char, 0, max), quote});
  }
  const auto [found, is_new] = lengths_.try_emplace({min, max}, 0);
  if (is_new) {
    found->second = builder_.NewRule("string");
    std::vector<Expr> parts = {quote, Exactly(min)};
    const bool is_limited = max != GrammarBuilder::kUnlimited;
    parts.push_back(is_limited ? UpTo(max - min)
                               : builder_.Repeat(Exactly(1), 0, max));
    parts.push_back(quote);
    builder_.Define(found->second, builder_.Sequence(std::move(parts)));
  }
  return builder_.Rule(found->second);
}

Expr JsonGrammar::Exactly(int64_t n) {
  const Expr any_char = Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
  if (n < kBlock) return builder_.Repeat(any_char, n, n);
  const Expr block = Once(block_, "characters", &JsonGrammar::MakeBlock);
  return builder_.Sequence({builder_.Repeat(block, n / kBlock, n / kBlock),
                            builder_.Repeat(any_char, n % kBlock, n % kBlock)});
}

// Whole blocks and less than one more; or as many blocks as fit, and the rest.
Expr JsonGrammar::UpTo(int64_t n) {
  const Expr any_char = Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
  if (n < 2 * kBlock) return builder_.Repeat(any_char, 0, n);
  const Expr block = Once(block_, "characters", &JsonGrammar::MakeBlock);
  const int64_t n_blocks = n / kBlock;
  return builder_.Choice(
      {builder_.Sequence({builder_.Repeat(block, 0, n_blocks - 1),
                          builder_.Repeat(any_char, 0, kBlock - 1)}),
       builder_.Sequence({builder_.Repeat(block, n_blocks, n_blocks),
                          builder_.Repeat(any_char, 0, n % kBlock)})});
}

Expr JsonGrammar::MakeBlock() {
  const Expr any_char = Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
  return builder_.Repeat(any_char, kBlock, kBlock);
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
  const Expr plain = MakeWhole();
  if (!any_spelling_ || plain_integers_) return plain;
  const Expr zeros = builder_.Sequence(
      {builder_.Literal("."),
       builder_.Repeat(builder_.Literal("0"), 1, kMaxDigits)});
  const Expr exponent =
      builder_.Sequence({builder_.Chars({{'E', 'E'}, {'e', 'e'}}),
                         builder_.Optional(builder_.Literal("+")),
                         Digits(1, kMaxExponentDigits)});
  return builder_.Sequence(
      {plain, builder_.Optional(zeros), builder_.Optional(exponent)});
}

Expr JsonGrammar::MakeWhole() {
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
      {MakeWhole(),
       builder_.Optional(
           builder_.Sequence({builder_.Literal("."), Digits(1, kMaxDigits)})),
       builder_.Optional(builder_.Sequence(
           {builder_.Chars({{'E', 'E'}, {'e', 'e'}}),
            builder_.Optional(builder_.Chars({{'+', '+'}, {'-', '-'}})),
            Digits(1, kMaxExponentDigits)}))});
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
