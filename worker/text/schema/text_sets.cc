#include "worker/text/schema/text_sets.h"

#include <algorithm>

#include "base/status_macros.h"
#include "worker/text/grammar/regex_automaton.h"
#include "worker/text/schema/number_set.h"

namespace plimsoll::worker {
namespace {

// The sets of the code points of `words`, one each.
void AppendSets(const std::vector<std::string>& words,
                std::vector<CodePoints>& sets) {
  for (absl::string_view word : words) {
    while (!word.empty()) {
      const auto c = TakeCodePoint(word);
      if (!c) break;
      sets.push_back({{*c, *c}});
    }
  }
}

}  // namespace

bool TextSets::IsPlain(const StringShape& shape) const {
  if (shape.values) return true;
  const bool has_length =
      shape.min > 0 || shape.max != GrammarBuilder::kUnlimited;
  if (shape.patterns.empty()) return !has_length || shape.excluded.empty();
  if (has_length || !shape.excluded.empty() || shape.patterns.size() > 1) {
    return false;
  }
  const PatternUse& use = shape.patterns[0];
  return !use.is_negated && !patterns_.At(use.pattern).has_inner_anchors;
}

bool TextSets::IsPlain(const NumberShape& shape) {
  if (shape.values) return true;
  return shape.excluded.empty() && shape.multiples.empty() && !shape.least &&
         !shape.greatest && shape.is_integer != false;
}

absl::StatusOr<const TextSet*> TextSets::Of(const StringShape& shape) {
  for (const auto& [known, set] : strings_) {
    if (known == shape) return set.get();
  }
  std::vector<CodePoints> sets;
  for (const PatternUse& use : shape.patterns) {
    AppendSets(patterns_.At(use.pattern).tree, sets);
  }
  AppendSets(shape.excluded, sets);
  auto set = std::make_unique<TextSet>();
  set->classes = std::make_unique<const CharKinds>(sets);
  const CharKinds& classes = *set->classes;
  std::vector<AutomatonOperand> operands;
  for (const PatternUse& use : shape.patterns) {
    const SchemaPattern& pattern = patterns_.At(use.pattern);
    ASSIGN_OR_RETURN(
        CharAutomaton automaton,
        RegexAutomaton(pattern.tree, pattern.match, classes, stop_));
    operands.push_back({std::move(automaton), use.is_negated});
  }
  if (!shape.excluded.empty()) {
    operands.push_back({WordsAutomaton(shape.excluded, classes),
                        /*is_negated=*/true});
  }
  // Any text, so that negated parts have something to be taken from.
  ASSIGN_OR_RETURN(CharAutomaton any,
                   LengthAutomaton(0, GrammarBuilder::kUnlimited, classes));
  operands.push_back({std::move(any), /*is_negated=*/false});
  if (shape.min > 0 || shape.max != GrammarBuilder::kUnlimited) {
    ASSIGN_OR_RETURN(CharAutomaton length,
                     LengthAutomaton(shape.min, shape.max, classes));
    operands.push_back({std::move(length), /*is_negated=*/false});
  }
  ASSIGN_OR_RETURN(set->automaton, Intersect(operands, classes.size(), stop_));
  strings_.emplace_back(shape, std::move(set));
  return strings_.back().second.get();
}

absl::StatusOr<const TextSet*> TextSets::Of(const NumberShape& shape) {
  for (const auto& [known, set] : numbers_) {
    if (known == shape) return set.get();
  }
  ASSIGN_OR_RETURN(TextSet made, NumberSet(shape, stop_));
  numbers_.emplace_back(shape, std::make_unique<TextSet>(std::move(made)));
  return numbers_.back().second.get();
}

}  // namespace plimsoll::worker
