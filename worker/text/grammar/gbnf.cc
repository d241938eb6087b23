#include "worker/text/grammar/gbnf.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/grammar_source.h"
#include "worker/text/grammar/text_before.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(absl::string_view text, StopCheck stop)
      : text_(text), rest_(text), builder_(stop) {}

  absl::StatusOr<std::shared_ptr<const Grammar>> Parse(
      absl::string_view trigger) {
    SkipSpaceAndLines();
    while (!rest_.empty()) RETURN_IF_ERROR(ParseRule());
    for (const RuleUse& use : rules_) {
      if (use.is_defined) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", use.line, ": rule '", use.name, "' is not defined"));
    }
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) {
      return absl::InvalidArgumentError(
          "there is no rule 'root', where a grammar begins");
    }
    int32_t rule = rules_[root->second].rule;
    if (!trigger.empty()) {
      const Expr after = builder_.Rule(rule);
      rule = builder_.NewRule("trigger");
      builder_.Define(
          rule, TextBefore({.trigger = std::string(trigger)}, after, builder_));
    }
    return builder_.Build(rule);
  }

 private:
  struct RuleUse {
    std::string name;
    int32_t rule;
    int64_t line;  // the line where it was first seen
    bool is_defined = false;
  };

  absl::Status Error(absl::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(),
                       text_.end() - static_cast<ptrdiff_t>(rest_.size()),
                       '\n');
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }
  bool Take(absl::string_view token) {
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // Skips comments and what is in `space`.
  void SkipAny(absl::string_view space) {
    while (!rest_.empty()) {
      const char c = rest_[0];
      if (c == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (space.find(c) != space.npos) {
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }
  void SkipSpace() { SkipAny(" \t"); }
  void SkipSpaceAndLines() { SkipAny(" \t\n\r"); }
  // Lines end a rule, but not between parentheses.
  void SkipSpaceAt(int depth) {
    if (depth > 0) {
      SkipSpaceAndLines();
    } else {
      SkipSpace();
    }
  }

  RuleUse& Named(absl::string_view name) {
    auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      found = numbers_.emplace(name, rules_.size()).first;
      const auto before = text_.substr(0, text_.size() - rest_.size());
      n_lines_ += std::count(before.begin() + static_cast<ptrdiff_t>(counted_),
                             before.end(), '\n');
      counted_ = before.size();
      rules_.push_back(
          {std::string(name), builder_.NewRule(name), n_lines_ + 1});
    }
    return rules_[found->second];
  }
  absl::StatusOr<absl::string_view> TakeName() {
    size_t n = 0;
    while (n < rest_.size() && IsNameChar(rest_[n])) ++n;
    if (n == 0) return Error("the name of a rule is expected");
    const absl::string_view name = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return name;
  }

  absl::Status ParseRule() {
    ASSIGN_OR_RETURN(const absl::string_view name, TakeName());
    RuleUse& rule = Named(name);
    if (rule.is_defined) {
      return Error(absl::StrCat("rule '", name, "' is defined twice"));
    }
    rule.is_defined = true;
    const int32_t number = rule.rule;
    SkipSpace();
    if (!Take("::=")) {
      return Error(absl::StrCat("::= is expected after '", name, "'"));
    }
    SkipSpaceAndLines();
    ASSIGN_OR_RETURN(const Expr definition, ParseChoices(0));
    builder_.Define(number, definition);
    if (!rest_.empty() && rest_[0] != '\n' && rest_[0] != '\r') {
      return Error(absl::StrCat("'", rest_.substr(0, 1), "' is unexpected"));
    }
    SkipSpaceAndLines();
    return absl::OkStatus();
  }

  // Parses `a | b | c`, inside `depth` parentheses.
  absl::StatusOr<Expr> ParseChoices(int depth) {
    std::vector<Expr> choices;
    while (true) {
      ASSIGN_OR_RETURN(const Expr one, ParseSequence(depth));
      choices.push_back(one);
      const absl::string_view before = rest_;
      SkipSpaceAndLines();
      if (!Take("|")) {
        if (depth == 0) rest_ = before;
        return builder_.Choice(std::move(choices));
      }
      SkipSpaceAndLines();
    }
  }

  absl::StatusOr<Expr> ParseSequence(int depth) {
    std::vector<Expr> parts;
    while (true) {
      SkipSpaceAt(depth);
      if (rest_.empty() || absl::StrContains("|)\r\n", rest_[0])) {
        return builder_.Sequence(std::move(parts));
      }
      ASSIGN_OR_RETURN(Expr part, ParseItem(depth));
      ASSIGN_OR_RETURN(part, ParseRepeats(part, depth));
      parts.push_back(part);
    }
  }

  absl::StatusOr<Expr> ParseItem(int depth) {
    if (Take("\"")) return ParseLiteral();
    if (Take("[")) return ParseClass();
    if (Take(".")) return builder_.Chars(Complement({}));
    if (Take("(")) {
      if (depth >= Grammar::kMaxNesting) {
        return Error(absl::StrCat("parentheses are nested more than ",
                                  Grammar::kMaxNesting, " deep"));
      }
      ASSIGN_OR_RETURN(const Expr inner, ParseChoices(depth + 1));
      if (!Take(")")) return Error("a parenthesis is not closed");
      return inner;
    }
    if (IsNameChar(rest_[0])) {
      ASSIGN_OR_RETURN(const absl::string_view name, TakeName());
      return builder_.Rule(Named(name).rule);
    }
    if (rest_[0] == '<' || rest_[0] == '!') {
      return Error(
          "tokens as parts of a rule (<text>, <[id]>, !) are not "
          "supported");
    }
    return Error(absl::StrCat("'", rest_.substr(0, 1), "' is unexpected"));
  }

  absl::StatusOr<Expr> ParseRepeats(Expr part, int depth) {
    while (true) {
      SkipSpaceAt(depth);
      if (Take("*")) {
        part = builder_.Repeat(part, 0, GrammarBuilder::kUnlimited);
      } else if (Take("+")) {
        part = builder_.Repeat(part, 1, GrammarBuilder::kUnlimited);
      } else if (Take("?")) {
        part = builder_.Optional(part);
      } else if (Take("{")) {
        ASSIGN_OR_RETURN(part, ParseCounts(part));
      } else {
        return part;
      }
    }
  }

  absl::StatusOr<Expr> ParseCounts(Expr part) {
    const auto counts = TakeRepeatCounts(rest_);
    if (!counts.ok()) return Error(counts.status().message());
    return builder_.Repeat(part, counts->min, counts->max);
  }

  absl::StatusOr<Expr> ParseLiteral() {
    std::string bytes;
    while (!Take("\"")) {
      if (rest_.empty() || rest_[0] == '\n') {
        return Error("a literal is not closed");
      }
      ASSIGN_OR_RETURN(const uint32_t c, TakeChar());
      AppendUtf8(c, bytes);
    }
    return builder_.Literal(bytes);
  }

  // Parses a class; its opening bracket has been taken.
  absl::StatusOr<Expr> ParseClass() {
    const bool is_negated = Take("^");
    CodePoints set;
    while (!Take("]")) {
      if (rest_.empty() || rest_[0] == '\n') {
        return Error("a class [...] is not closed");
      }
      ASSIGN_OR_RETURN(const uint32_t first, TakeChar());
      uint32_t last = first;
      if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        rest_.remove_prefix(1);
        ASSIGN_OR_RETURN(last, TakeChar());
      }
      if (last < first) return Error("a range in a class is not in order");
      set.push_back({first, last});
    }
    return builder_.Chars(is_negated ? Complement(set) : set);
  }

  // Takes a code point, written as itself or escaped.
  absl::StatusOr<uint32_t> TakeChar() {
    if (rest_.empty()) return Error("the text ends too early");
    if (!Take("\\")) return TakeCodePoint(rest_).value_or(0);  // valid UTF-8
    if (rest_.empty()) return Error("the text ends after a backslash");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return TakeHex(2);
      case 'u':
        return TakeHex(4);
      case 'U':
        return TakeHex(8);
      default:
        break;
    }
    if (absl::StrContains("\\\"[]-^", c)) return static_cast<uint32_t>(c);
    return Error("an escape that is not known");
  }
  absl::StatusOr<uint32_t> TakeHex(size_t n) {
    auto code_point = TakeHexEscape(n, rest_);
    if (!code_point.ok()) return Error(code_point.status().message());
    return code_point;
  }

  absl::string_view text_;
  absl::string_view rest_;
  GrammarBuilder builder_;
  std::vector<RuleUse> rules_;
  std::map<std::string, size_t, std::less<>> numbers_;  // by name
  size_t counted_ = 0;  // bytes whose lines are in n_lines_
  int64_t n_lines_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Grammar>> CompileGbnf(
    absl::string_view text, StopCheck stop, absl::string_view trigger) {
  RETURN_IF_ERROR(CheckSource(text));
  return GbnfParser(text, stop).Parse(trigger);
}

}  // namespace plimsoll::worker
