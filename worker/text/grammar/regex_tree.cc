#include "worker/text/grammar/regex_tree.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/grammar_source.h"

namespace plimsoll::worker {
namespace {

using Kind = RegexNode::Kind;

constexpr absl::string_view kPunctuation = "\\^$.*+?()[]{}|/-'\"`~!@#%&=:;<>, ";

// What ECMA-262 calls the end of a line.
const CodePoints& LineEnds() {
  static const CodePoints* const ends =
      new CodePoints{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return *ends;
}

RegexNode Chars(CodePoints set) {
  return {.kind = Kind::kChars, .set = std::move(set)};
}

// The set of \d, \w, \s or of their negations; nothing for other letters.
std::optional<CodePoints> NamedClass(char letter, bool is_ecma) {
  CodePoints set;
  switch (absl::ascii_tolower(static_cast<unsigned char>(letter))) {
    case 'd':
      set = {{'0', '9'}};
      break;
    case 'w':
      set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    case 's':
      set = {{'\t', '\r'}, {' ', ' '}};
      if (is_ecma) {
        // Source: ECMA-262, WhiteSpace and LineTerminator.
        set = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
               {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
               {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
               {0xFEFF, 0xFEFF}};
      }
      break;
    default:
      return std::nullopt;
  }
  const bool is_negated =
      absl::ascii_isupper(static_cast<unsigned char>(letter));
  return is_negated ? Complement(set) : set;
}

class RegexParser {
 public:
  RegexParser(absl::string_view text, RegexSyntax syntax)
      : text_(text), rest_(text), is_ecma_(syntax == RegexSyntax::kEcma) {}

  absl::StatusOr<RegexNode> Parse() {
    ASSIGN_OR_RETURN(RegexNode all, ParseChoices(0));
    if (!rest_.empty()) return Error("a parenthesis was not opened");
    return all;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("at byte ", text_.size() - rest_.size(), ": ", what));
  }
  bool Take(absl::string_view token) {
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  absl::StatusOr<RegexNode> ParseChoices(int depth) {
    RegexNode all = {.kind = Kind::kChoice};
    do {
      ASSIGN_OR_RETURN(RegexNode one, ParseSequence(depth));
      all.parts.push_back(std::move(one));
    } while (Take("|"));
    return all.parts.size() == 1 ? std::move(all.parts[0]) : std::move(all);
  }

  absl::StatusOr<RegexNode> ParseSequence(int depth) {
    constexpr char kEndsOnly[] =
        "^ and $ are supported at the ends of the pattern only";
    RegexNode all;
    bool has_end = false;
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      const bool is_anchor = rest_[0] == '^' || rest_[0] == '$';
      const bool is_first = rest_[0] == '^' && all.parts.empty();
      const bool may_be =
          is_ecma_ || (depth == 0 && (rest_[0] == '$' || is_first));
      if ((has_end && !is_ecma_) || (is_anchor && !may_be)) {
        return Error(kEndsOnly);
      }
      if (is_anchor) {
        has_end = rest_[0] == '$';
        all.parts.push_back({.kind = has_end ? Kind::kEnd : Kind::kBegin});
        rest_.remove_prefix(1);
        continue;
      }
      ASSIGN_OR_RETURN(RegexNode part, ParseItem(depth));
      ASSIGN_OR_RETURN(part, ParseRepeat(std::move(part)));
      all.parts.push_back(std::move(part));
    }
    return all;
  }

  absl::StatusOr<RegexNode> ParseItem(int depth) {
    if (Take("(")) return ParseGroup(depth);
    if (Take("[")) return ParseClass();
    if (Take(".")) {
      return Chars(
          Complement(is_ecma_ ? LineEnds() : CodePoints{{'\n', '\n'}}));
    }
    const bool is_brace = rest_[0] == '{' && is_ecma_ && !IsCountNext();
    if (absl::StrContains("*+?{", rest_[0]) && !is_brace) {
      return Error(absl::StrCat("nothing comes before '", rest_.substr(0, 1),
                                "' to repeat; write \\", rest_.substr(0, 1),
                                " for the character"));
    }
    if (Take("\\")) {
      if (!rest_.empty()) {
        if (const auto set = NamedClass(rest_[0], is_ecma_)) {
          rest_.remove_prefix(1);
          return Chars(*set);
        }
      }
      ASSIGN_OR_RETURN(const uint32_t c, TakeEscape(/*in_class=*/false));
      return Chars({{c, c}});
    }
    const uint32_t c = TakeCodePoint(rest_).value_or(0);  // valid UTF-8
    return Chars({{c, c}});
  }

  absl::StatusOr<RegexNode> ParseGroup(int depth) {
    if (depth >= Grammar::kMaxNesting) {
      return Error(absl::StrCat("groups are nested more than ",
                                Grammar::kMaxNesting, " deep"));
    }
    if (Take("?")) {
      if (absl::StartsWith(rest_, "=") || absl::StartsWith(rest_, "!")) {
        return Error("look-ahead is not supported");
      }
      if (absl::StartsWith(rest_, "<=") || absl::StartsWith(rest_, "<!")) {
        return Error("look-behind is not supported");
      }
      if (absl::StartsWith(rest_, ">")) {
        return Error("atomic groups are not supported");
      }
      if (!Take(":") && !(is_ecma_ && TakeGroupName())) {
        return Error(
            "of the groups (?...) only (?:...) is supported: no names,"
            " no flags");
      }
    }
    ASSIGN_OR_RETURN(RegexNode inner, ParseChoices(depth + 1));
    if (!Take(")")) return Error("a parenthesis is not closed");
    return inner;
  }

  // Takes "<name>".
  bool TakeGroupName() {
    const size_t end = rest_.find('>');
    if (!absl::StartsWith(rest_, "<") || end == absl::string_view::npos) {
      return false;
    }
    rest_.remove_prefix(end + 1);
    return true;
  }

  // True if a repetition {m}, {m,} or {m,n} is next.
  bool IsCountNext() const {
    const size_t end = rest_.find('}');
    if (!absl::StartsWith(rest_, "{") || end == absl::string_view::npos) {
      return false;
    }
    const absl::string_view inner = rest_.substr(1, end - 1);
    return !inner.empty() && inner[0] != ',' &&
           inner.find_first_not_of("0123456789,") == absl::string_view::npos &&
           std::count(inner.begin(), inner.end(), ',') <= 1;
  }

  absl::StatusOr<RegexNode> ParseRepeat(RegexNode part) {
    int64_t min = 0;
    int64_t max = GrammarBuilder::kUnlimited;
    if (Take("+")) {
      min = 1;
    } else if (Take("?")) {
      max = 1;
    } else if ((!is_ecma_ || IsCountNext()) && Take("{")) {
      const auto counts = TakeRepeatCounts(rest_);
      if (!counts.ok()) return Error(counts.status().message());
      min = counts->min;
      max = counts->max;
    } else if (!Take("*")) {
      return part;
    }
    if (absl::StartsWith(rest_, "?") && !(is_ecma_ && Take("?"))) {
      return Error(
          "lazy repetition is not supported: a whole text matches or "
          "does not");
    }
    if (absl::StartsWith(rest_, "+")) {
      return Error("possessive repetition is not supported");
    }
    RegexNode repeat = {.kind = Kind::kRepeat, .min = min, .max = max};
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  // Parses a class; its opening bracket has been taken.
  absl::StatusOr<RegexNode> ParseClass() {
    const bool is_negated = Take("^");
    CodePoints set;
    while (!Take("]")) {
      if (rest_.empty()) return Error("a class [...] is not closed");
      if (!is_ecma_ && absl::StartsWith(rest_, "[:")) {
        return Error("POSIX classes [:name:] are not supported");
      }
      CodePoints named;
      ASSIGN_OR_RETURN(const uint32_t first, TakeClassChar(named));
      const bool is_range =
          rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']';
      if (!named.empty()) {
        if (is_range && !is_ecma_) {
          return Error("a range in a class begins with a class");
        }
        set.insert(set.end(), named.begin(), named.end());
        continue;
      }
      uint32_t last = first;
      if (is_range) {
        rest_.remove_prefix(1);
        ASSIGN_OR_RETURN(last, TakeClassChar(named));
        if (!named.empty() && !is_ecma_) {
          return Error("a range in a class ends in a class");
        }
        if (!named.empty()) {
          // The hyphen is itself.
          set.insert(set.end(), named.begin(), named.end());
          set.push_back({'-', '-'});
          last = first;
        }
      }
      if (last < first) return Error("a range in a class is not in order");
      set.push_back({first, last});
    }
    return Chars(is_negated ? Complement(set) : set);
  }

  // Takes one code point of a class, or adds the set of \d and the like to
  // `named`.
  absl::StatusOr<uint32_t> TakeClassChar(CodePoints& named) {
    if (rest_.empty()) return Error("a class [...] is not closed");
    if (!Take("\\")) return TakeCodePoint(rest_).value_or(0);  // valid UTF-8
    if (!rest_.empty()) {
      if (const auto set = NamedClass(rest_[0], is_ecma_)) {
        rest_.remove_prefix(1);
        named = *set;
        return 0;
      }
    }
    return TakeEscape(/*in_class=*/true);
  }

  // Takes an escape; its backslash has been taken.
  absl::StatusOr<uint32_t> TakeEscape(bool in_class) {
    if (rest_.empty()) return Error("the pattern ends after a backslash");
    const char c = rest_[0];
    if (!in_class && (c == 'b' || c == 'B')) {
      return Error("word boundaries (\\b) are not supported");
    }
    if (absl::StrContains("AzZG", c)) {
      return Error("anchors other than ^ and $ are not supported");
    }
    if ((c >= '1' && c <= '9') || c == 'k') {
      return Error("back references are not supported");
    }
    if (c == 'p' || c == 'P') {
      return Error("Unicode properties (\\p) are not supported");
    }
    rest_.remove_prefix(1);
    constexpr absl::string_view kLetters = "tnrfv0b";
    constexpr absl::string_view kMeanings("\t\n\r\f\v\0\b", 7);
    if (const size_t at = kLetters.find(c); at != absl::string_view::npos) {
      return static_cast<uint32_t>(kMeanings[at]);
    }
    if (c == 'x') return TakeHex(2);
    if (c == 'u' && Take("{")) {
      const size_t n = std::min(rest_.find('}'), rest_.size());
      if (n == 0 || n > 6) return Error("\\u{...} needs 1 to 6 hex digits");
      ASSIGN_OR_RETURN(const uint32_t code_point, TakeHex(n));
      if (!Take("}")) return Error("\\u{ is not closed");
      return code_point;
    }
    if (c == 'u') return TakeUnit();
    if (is_ecma_ && c == 'c' && !rest_.empty() &&
        absl::ascii_isalpha(static_cast<unsigned char>(rest_[0]))) {
      const auto control = static_cast<uint32_t>(rest_[0]) % 32;
      rest_.remove_prefix(1);
      return control;
    }
    if (is_ecma_ && static_cast<unsigned char>(c) >= 0x80) {
      return Error("an escape that is not supported");
    }
    const bool is_itself =
        absl::StrContains(kPunctuation, c) ||
        (is_ecma_ && absl::ascii_ispunct(static_cast<unsigned char>(c)));
    if (is_itself) return static_cast<uint32_t>(c);
    return Error("an escape that is not supported");
  }
  // Takes the digits of \uHHHH, or of a pair of them that is one code point.
  absl::StatusOr<uint32_t> TakeUnit() {
    uint32_t high = 0;
    uint32_t low = 0;
    const bool is_pair =
        is_ecma_ && rest_.size() >= 10 && rest_.substr(4, 2) == "\\u" &&
        absl::SimpleHexAtoi(rest_.substr(0, 4), &high) &&
        absl::SimpleHexAtoi(rest_.substr(6, 4), &low) && high >= 0xD800 &&
        high <= 0xDBFF && low >= 0xDC00 && low <= 0xDFFF;
    if (!is_pair) return TakeHex(4);
    rest_.remove_prefix(10);
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }
  absl::StatusOr<uint32_t> TakeHex(size_t n) {
    auto code_point = TakeHexEscape(n, rest_);
    if (!code_point.ok()) return Error(code_point.status().message());
    return code_point;
  }

  absl::string_view text_;
  absl::string_view rest_;
  const bool is_ecma_;
};

}  // namespace

absl::StatusOr<RegexNode> ParseRegex(absl::string_view pattern,
                                     RegexSyntax syntax) {
  RETURN_IF_ERROR(CheckSource(pattern));
  return RegexParser(pattern, syntax).Parse();
}

}  // namespace plimsoll::worker
