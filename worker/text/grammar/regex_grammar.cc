#include "worker/text/grammar/regex_grammar.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar_source.h"
#include "worker/text/grammar/grammar_spread.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

constexpr absl::string_view kPunctuation = "\\^$.*+?()[]{}|/-'\"`~!@#%&=:;<>, ";

// The set of \d, \w, \s or of their negations; nothing for other letters.
std::optional<CodePoints> NamedClass(char letter) {
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
  RegexParser(absl::string_view text, const RegexOptions& options,
              GrammarBuilder& builder)
      : text_(text), rest_(text), options_(options), builder_(builder) {}

  absl::StatusOr<Expr> Parse() {
    ASSIGN_OR_RETURN(const Expr all, ParseChoices(0));
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
  Expr Chars(const CodePoints& set) {
    return options_.chars ? options_.chars(set) : builder_.Chars(set);
  }
  Expr Anything() {
    return builder_.Repeat(Chars(Complement({})), 0,
                           GrammarBuilder::kUnlimited);
  }

  absl::StatusOr<Expr> ParseChoices(int depth) {
    std::vector<Expr> choices;
    do {
      ASSIGN_OR_RETURN(const Expr one, ParseSequence(depth));
      choices.push_back(one);
    } while (Take("|"));
    return builder_.Choice(std::move(choices));
  }

  absl::StatusOr<Expr> ParseSequence(int depth) {
    std::vector<Expr> parts;
    const bool is_outermost = depth == 0;
    const bool has_begin = is_outermost && Take("^");
    if (is_outermost && options_.is_search && !has_begin) {
      parts.push_back(Anything());
    }
    bool has_end = false;
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      if (has_end || rest_[0] == '^') {
        return Error("^ and $ are supported at the ends of the pattern only");
      }
      if (Take("$")) {
        if (!is_outermost) {
          return Error("^ and $ are supported at the ends of the pattern only");
        }
        has_end = true;
        continue;
      }
      ASSIGN_OR_RETURN(Expr part, ParseItem(depth));
      ASSIGN_OR_RETURN(part, ParseRepeat(part));
      parts.push_back(part);
    }
    if (is_outermost && options_.is_search && !has_end) {
      parts.push_back(Anything());
    }
    return builder_.Sequence(std::move(parts));
  }

  absl::StatusOr<Expr> ParseItem(int depth) {
    if (Take("(")) return ParseGroup(depth);
    if (Take("[")) return ParseClass();
    if (Take(".")) return Chars(Complement({{'\n', '\n'}}));
    if (absl::StrContains("*+?{", rest_[0])) {
      return Error(absl::StrCat("nothing comes before '", rest_.substr(0, 1),
                                "' to repeat; write \\", rest_.substr(0, 1),
                                " for the character"));
    }
    if (Take("\\")) {
      if (!rest_.empty()) {
        if (const auto set = NamedClass(rest_[0])) {
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

  absl::StatusOr<Expr> ParseGroup(int depth) {
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
      if (!Take(":")) {
        return Error(
            "of the groups (?...) only (?:...) is supported: no names,"
            " no flags");
      }
    }
    ASSIGN_OR_RETURN(const Expr inner, ParseChoices(depth + 1));
    if (!Take(")")) return Error("a parenthesis is not closed");
    return inner;
  }

  absl::StatusOr<Expr> ParseRepeat(Expr part) {
    int64_t min = 0;
    int64_t max = GrammarBuilder::kUnlimited;
    if (Take("+")) {
      min = 1;
    } else if (Take("?")) {
      max = 1;
    } else if (Take("{")) {
      const auto counts = TakeRepeatCounts(rest_);
      if (!counts.ok()) return Error(counts.status().message());
      min = counts->min;
      max = counts->max;
    } else if (!Take("*")) {
      return part;
    }
    if (absl::StartsWith(rest_, "?")) {
      return Error(
          "lazy repetition is not supported: a whole text matches or "
          "does not");
    }
    if (absl::StartsWith(rest_, "+")) {
      return Error("possessive repetition is not supported");
    }
    return builder_.Repeat(part, min, max);
  }

  // Parses a class; its opening bracket has been taken.
  absl::StatusOr<Expr> ParseClass() {
    const bool is_negated = Take("^");
    CodePoints set;
    while (!Take("]")) {
      if (rest_.empty()) return Error("a class [...] is not closed");
      if (absl::StartsWith(rest_, "[:")) {
        return Error("POSIX classes [:name:] are not supported");
      }
      CodePoints named;
      ASSIGN_OR_RETURN(const uint32_t first, TakeClassChar(named));
      const bool is_range =
          rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']';
      if (!named.empty()) {
        if (is_range) return Error("a range in a class begins with a class");
        set.insert(set.end(), named.begin(), named.end());
        continue;
      }
      uint32_t last = first;
      if (is_range) {
        rest_.remove_prefix(1);
        ASSIGN_OR_RETURN(last, TakeClassChar(named));
        if (!named.empty()) return Error("a range in a class ends in a class");
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
      if (const auto set = NamedClass(rest_[0])) {
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
    if (c == 'u') return TakeHex(4);
    if (absl::StrContains(kPunctuation, c)) return static_cast<uint32_t>(c);
    return Error("an escape that is not supported");
  }
  absl::StatusOr<uint32_t> TakeHex(size_t n) {
    auto code_point = TakeHexEscape(n, rest_);
    if (!code_point.ok()) return Error(code_point.status().message());
    return code_point;
  }

  absl::string_view text_;
  absl::string_view rest_;
  const RegexOptions& options_;
  GrammarBuilder& builder_;
};

}  // namespace

absl::StatusOr<Expr> AddRegex(absl::string_view pattern,
                              const RegexOptions& options,
                              GrammarBuilder& builder) {
  RETURN_IF_ERROR(CheckSource(pattern));
  return RegexParser(pattern, options, builder).Parse();
}

absl::StatusOr<std::shared_ptr<const Grammar>> CompileRegex(
    absl::string_view pattern, StopCheck stop) {
  GrammarBuilder builder(stop);
  ASSIGN_OR_RETURN(const Expr all, AddRegex(pattern, {}, builder));
  const int32_t root = builder.NewRule("regex");
  builder.Define(root, all);
  ASSIGN_OR_RETURN(const std::shared_ptr<Grammar> grammar, builder.Build(root));
  RETURN_IF_ERROR(ProveBounded(grammar, stop));
  return grammar;
}

}  // namespace plimsoll::worker
