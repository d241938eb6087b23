// Compiles regular expressions to grammars.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_GRAMMAR_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/regex_tree.h"

namespace plimsoll::worker {

// Compiles a grammar of the texts that `pattern` matches from beginning to end
// or, with a `trigger`, of texts in which such a text follows it.
// Patterns have literals, `.` (all but a line feed), classes, \d \w \s and
// their negations (ASCII), the escapes \t \n \r \f \v \0 \xHH \uHHHH \u{H...}
// and those of punctuation, groups, alternation, * + ? {m} {m,} {m,n}, and ^ or
// $ at the ends.
// Errors: kInvalidArgument naming the byte and the fault or unsupported feature
// (look-around, back references, lazy and possessive repetition, ...); for a
// pattern that ProveBounded refuses; those of `stop`.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileRegex(
    absl::string_view pattern, StopCheck stop = NeverStop,
    absl::string_view trigger = "");

struct RegexOptions {
  // With kAnywhere, ^ and $ bind the pattern to an end of the text.
  RegexMatch match = RegexMatch::kWhole;
  // Writes one code point of a set; the default is UTF-8.
  std::function<GrammarBuilder::Expr(const CodePoints&)> chars = nullptr;
};

// Adds a pattern to `builder` and returns its expression. Anchors may stand at
// the ends of its alternatives only.
GrammarBuilder::Expr AddRegex(const RegexNode& tree,
                              const RegexOptions& options,
                              GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_GRAMMAR_H_
