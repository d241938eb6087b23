#include "worker/text/grammar/json_grammar.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/text/grammar/text_before.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

constexpr int kMaxIndent = 20;
constexpr int64_t kMaxBareKeyBytes = 64;

// True for a name that cannot be taken for a part of the syntax.
bool IsBareKey(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxBareKeyBytes &&
         !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '_';
         });
}

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

std::string HexEscape(uint32_t code_point) {
  return absl::StrCat("\\u", absl::Hex(code_point, absl::kZeroPad4));
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
  if (!spelling_.has_space) return builder_.Literal("");
  const Expr space = builder_.Literal(" ");
  return builder_.Choice(
      {builder_.Literal(""), space,
       builder_.Sequence(
           {builder_.Literal("\n"), builder_.Repeat(space, 0, kMaxIndent)})});
}

Expr JsonGrammar::StringChar(const CodePoints& set) {
  if (!builder_.ok()) return builder_.Literal("");
  if (spelling_.raw) {
    const uint32_t first = static_cast<uint8_t>(spelling_.raw->end[0]);
    return builder_.Chars(Intersection(set, Complement({{first, first}})));
  }
  const CodePoints wanted = Normalized(set);
  // Sets that need many instructions are rules.
  const bool is_small = !wanted.empty() && wanted.back().last < 0x80 &&
                        wanted.front().first >= 0x20 && !spelling_.is_any &&
                        spelling_.escaped.empty();
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
  CodePoints escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  for (const char c : spelling_.escaped) {
    const auto code_point = uint32_t{static_cast<uint8_t>(c)};
    escaped.push_back({code_point, code_point});
  }
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
  for (const char c : spelling_.escaped) {
    const auto code_point = uint32_t{static_cast<uint8_t>(c)};
    if (!Contains(wanted, code_point)) continue;
    choices.push_back(builder_.Literal(HexEscape(code_point)));
  }
  if (spelling_.is_any) AddEscapes(wanted, choices);
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

Expr JsonGrammar::Quoted(Expr chars) {
  if (spelling_.raw) {
    return builder_.Sequence({builder_.Marked(spelling_.raw->open), chars,
                              builder_.Marked(spelling_.raw->close)});
  }
  const Expr quote = builder_.Literal("\"");
  return builder_.Sequence({quote, chars, quote});
}

Expr JsonGrammar::Text(absl::string_view text) {
  if (spelling_.raw) {
    // A text that cannot be told from its end is none.
    if (text.find(spelling_.raw->end[0]) != absl::string_view::npos) {
      return builder_.Choice({});
    }
    return Quoted(builder_.Literal(text));
  }
  std::vector<Expr> parts;
  for (const uint32_t c : Decoded(text)) {
    parts.push_back(StringText(c));
  }
  return Quoted(builder_.Sequence(std::move(parts)));
}

Expr JsonGrammar::Key(absl::string_view text) {
  return spelling_.has_bare_keys && IsBareKey(text) ? builder_.Literal(text)
                                                    : Text(text);
}

Expr JsonGrammar::AnyKey() {
  if (!spelling_.has_bare_keys) return String();
  return builder_.Choice(
      {String(), builder_.Sequence(
                     {builder_.Chars({{'A', 'Z'}, {'_', '_'}, {'a', 'z'}}),
                      builder_.Repeat(
                          builder_.Chars(
                              {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}),
                          0, kMaxBareKeyBytes - 1)})});
}

Expr JsonGrammar::StringText(uint32_t code_point) {
  if (spelling_.is_any) return StringChar({{code_point, code_point}});
  // One spelling: a literal, which joins its neighbours.
  for (const ShortEscape& one : kShortEscapes) {
    if (one.code_point != code_point) continue;
    return builder_.Literal(
        absl::StrCat("\\", std::string(1, static_cast<char>(one.letter))));
  }
  const bool is_escaped =
      code_point < 0x80 &&
      absl::StrContains(spelling_.escaped, static_cast<char>(code_point));
  if (code_point < 0x20 || is_escaped) {
    return builder_.Literal(HexEscape(code_point));
  }
  std::string bytes;
  AppendUtf8(code_point, bytes);
  return builder_.Literal(bytes);
}

Expr JsonGrammar::MakeAnyChar() { return StringChar(Complement({})); }

Expr JsonGrammar::MakeRawString() {
  const RawStrings& raw = *spelling_.raw;
  const TextEnd end = {.trigger = raw.end,
                       .never = raw.never,
                       .is_needed = true,
                       .has_marks = false};
  return builder_.Sequence({builder_.Marked(raw.open),
                            TextBefore(end, builder_.Literal(""), builder_)});
}

Expr JsonGrammar::String(int64_t min, int64_t max) {
  if (min == 0 && max == GrammarBuilder::kUnlimited) {
    if (spelling_.raw) {
      return Once(raw_string_, "string", &JsonGrammar::MakeRawString);
    }
    const Expr any_char =
        Once(any_char_, "character", &JsonGrammar::MakeAnyChar);
    return Quoted(builder_.Repeat(any_char, 0, max));
  }
  const auto [found, is_new] = lengths_.try_emplace({min, max}, 0);
  if (is_new) {
    found->second = builder_.NewRule("string");
    std::vector<Expr> parts = {Exactly(min)};
    const bool is_limited = max != GrammarBuilder::kUnlimited;
    parts.push_back(is_limited ? UpTo(max - min)
                               : builder_.Repeat(Exactly(1), 0, max));
    builder_.Define(found->second, Quoted(builder_.Sequence(std::move(parts))));
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
  return Quoted(ExceptFrom(names, 0));
}

Expr JsonGrammar::OtherFrom(const CodePoints& excluded) {
  std::vector<uint32_t> key;
  key.reserve(excluded.size());
  for (const CodePointRange& one : excluded) key.push_back(one.first);
  const auto [found, is_new] = others_.try_emplace(std::move(key), 0);
  if (is_new) {
    found->second = builder_.NewRule("other key");
    builder_.Define(found->second, MakeOther(excluded));
  }
  return builder_.Rule(found->second);
}

Expr JsonGrammar::MakeRest() {
  return builder_.Repeat(
      Once(any_char_, "character", &JsonGrammar::MakeAnyChar), 0,
      GrammarBuilder::kUnlimited);
}

Expr JsonGrammar::MakeWideRest() {
  return builder_.Sequence({StringChar({{0x80, kMaxCodePoint}}),
                            Once(rest_, "characters", &JsonGrammar::MakeRest)});
}

// Names mostly differ in ASCII. All other characters have one rule, so that
// streams meet few states behind them.
Expr JsonGrammar::MakeOther(const CodePoints& excluded) {
  const CodePoints first = Complement(excluded);
  const Expr rest = Once(rest_, "characters", &JsonGrammar::MakeRest);
  std::vector<Expr> choices;
  const CodePoints ascii = Intersection(first, {{0, 0x7F}});
  if (!ascii.empty()) {
    choices.push_back(builder_.Sequence({StringChar(ascii), rest}));
  }
  const CodePoints wide = {{0x80, kMaxCodePoint}};
  if (Intersection(excluded, wide).empty()) {
    choices.push_back(
        Once(wide_rest_, "characters", &JsonGrammar::MakeWideRest));
  } else {
    choices.push_back(
        builder_.Sequence({StringChar(Intersection(first, wide)), rest}));
  }
  return builder_.Choice(std::move(choices));
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
  if (!spelling_.is_any || spelling_.plain_integers) return plain;
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

Expr JsonGrammar::Boolean() { return builder_.Choice({True(), False()}); }

Expr JsonGrammar::True() { return builder_.Literal(spelling_.true_word); }

Expr JsonGrammar::False() { return builder_.Literal(spelling_.false_word); }

Expr JsonGrammar::Null() { return builder_.Literal(spelling_.null_word); }

Expr JsonGrammar::Bracketed(absl::string_view open, std::optional<Expr> inner,
                            bool may_be_empty, absl::string_view close) {
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
  return Bracketed(spelling_.object_open, members, may_be_empty,
                   spelling_.object_close);
}

Expr JsonGrammar::Member(Expr key, Expr value) {
  return builder_.Sequence({key, builder_.Literal(":"), Space(), value});
}

Expr JsonGrammar::Comma() {
  return builder_.Sequence({builder_.Literal(spelling_.comma), Space()});
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
      {Object(list_of(Member(AnyKey(), value)), /*may_be_empty=*/true),
       Array(list_of(value), /*may_be_empty=*/true), String(), Number(),
       Boolean(), Null()});
}

}  // namespace plimsoll::worker
