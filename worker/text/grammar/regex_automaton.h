// Regular expressions as automata, by sets of places in the pattern.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_AUTOMATON_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_AUTOMATON_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/char_automaton.h"
#include "worker/text/grammar/regex_tree.h"

namespace plimsoll::worker {

// The sets of code points that a pattern names.
void AppendSets(const RegexNode& tree, std::vector<CodePoints>& sets);

// The texts that match `tree`.
// Errors: kInvalidArgument if the automaton would pass its limits; those of
// `stop`.
absl::StatusOr<CharAutomaton> RegexAutomaton(const RegexNode& tree,
                                             RegexMatch match,
                                             const CharKinds& classes,
                                             StopCheck stop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_AUTOMATON_H_
