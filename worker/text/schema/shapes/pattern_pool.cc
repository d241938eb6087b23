#include "worker/text/schema/shapes/pattern_pool.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "worker/text/grammar/regex_automaton.h"

namespace plimsoll::worker {
namespace {

using NodeKind = RegexNode::Kind;

bool HasAnchor(const RegexNode& node) {
  if (node.kind == NodeKind::kBegin || node.kind == NodeKind::kEnd) return true;
  return std::any_of(node.parts.begin(), node.parts.end(), HasAnchor);
}

// Whether an alternative has anchors other than ^ in front and $ at its end.
bool HasInnerAnchor(const RegexNode& node) {
  if (node.kind != NodeKind::kSequence) {
    return node.kind != NodeKind::kBegin && node.kind != NodeKind::kEnd &&
           HasAnchor(node);
  }
  for (size_t i = 0; i < node.parts.size(); ++i) {
    const RegexNode& part = node.parts[i];
    const bool is_outer =
        (part.kind == NodeKind::kBegin && i == 0) ||
        (part.kind == NodeKind::kEnd && i + 1 == node.parts.size());
    if (!is_outer && HasAnchor(part)) return true;
  }
  return false;
}

// The length of the group at the front of `text`, with its parentheses; 0 if it
// is not closed.
size_t GroupLength(absl::string_view text) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (in_class) {
      in_class = text[i] != ']';
    } else if (text[i] == '[') {
      in_class = true;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')' && --depth == 0) {
      return i + 1;
    }
  }
  return 0;
}

bool HasOuterChoice(absl::string_view text) {
  while (!text.empty()) {
    if (text[0] == '|') return true;
    size_t n = 1;
    if (text[0] == '\\') {
      n = 2;
    } else if (text[0] == '(') {
      n = std::max<size_t>(GroupLength(text), 1);
    } else if (text[0] == '[') {
      while (n < text.size() && text[n] != ']') n += text[n] == '\\' ? 2 : 1;
    }
    text.remove_prefix(std::min(n, text.size()));
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<PatternUse>> PatternPool::Add(
    const std::string& source, RegexMatch match) {
  std::vector<PatternUse> uses;
  absl::string_view rest = source;
  const bool is_bound = absl::ConsumePrefix(&rest, "^");
  while ((is_bound || match == RegexMatch::kWhole) &&
         (absl::StartsWith(rest, "(?=") || absl::StartsWith(rest, "(?!")) &&
         GroupLength(rest) > 0 && !HasOuterChoice(rest)) {
    const size_t n = GroupLength(rest);
    const std::string ahead = absl::StrCat("^(?:", rest.substr(3, n - 4), ")");
    ASSIGN_OR_RETURN(const size_t pattern,
                     AddPlain(ahead, RegexMatch::kAnywhere));
    uses.push_back({pattern, rest[2] == '!'});
    rest.remove_prefix(n);
  }
  const std::string main =
      uses.empty() ? source : absl::StrCat(is_bound ? "^" : "", rest);
  ASSIGN_OR_RETURN(const size_t pattern, AddPlain(main, match));
  uses.push_back({pattern, /*is_negated=*/false});
  std::sort(uses.begin(), uses.end());
  return uses;
}

absl::StatusOr<size_t> PatternPool::AddPlain(const std::string& source,
                                             RegexMatch match) {
  const auto known = numbers_.find({source, match});
  if (known != numbers_.end()) return known->second;
  RETURN_IF_ERROR(stop_());
  ASSIGN_OR_RETURN(RegexNode tree, ParseRegex(source, RegexSyntax::kEcma));
  auto pattern = std::make_unique<SchemaPattern>();
  pattern->number = patterns_.size();
  pattern->match = match;
  pattern->has_inner_anchors =
      tree.kind == NodeKind::kChoice
          ? std::any_of(tree.parts.begin(), tree.parts.end(), HasInnerAnchor)
          : HasInnerAnchor(tree);
  pattern->tree = std::move(tree);
  patterns_.push_back(std::move(pattern));
  numbers_[{source, match}] = patterns_.size() - 1;
  return patterns_.size() - 1;
}

absl::StatusOr<bool> PatternPool::Matches(const std::vector<PatternUse>& uses,
                                          absl::string_view text) {
  for (const PatternUse& use : uses) {
    SchemaPattern& pattern = *patterns_[use.pattern];
    if (!pattern.automaton) {
      std::vector<CodePoints> sets;
      AppendSets(pattern.tree, sets);
      pattern.classes = std::make_unique<const CharKinds>(sets);
      ASSIGN_OR_RETURN(
          pattern.automaton,
          RegexAutomaton(pattern.tree, pattern.match, *pattern.classes, stop_));
    }
    if (IsIn(text, *pattern.automaton, *pattern.classes) == use.is_negated) {
      return false;
    }
  }
  return true;
}

}  // namespace plimsoll::worker
