// Regular expressions as grammars.
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

namespace plimsoll::worker {

// The texts that `pattern` matches from beginning to end. It has literals, `.`
// (all but a line feed), classes, \d \w \s and their negations (ASCII), the
// escapes \t \n \r \f \v \0 \xHH \uHHHH \u{H...} and of punctuation, groups,
// alternation, * + ? {m} {m,} {m,n}, and ^ or $ at the ends.
// Errors: kInvalidArgument naming the byte and what is wrong or not supported
// there (look-around, back references, lazy and possessive repetition, ...);
// for a pattern that ProveBounded refuses; what `stop` says.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileRegex(
    absl::string_view pattern, StopCheck stop = NeverStop);

struct RegexOptions {
  // Whether the pattern may match a part of the text, as a search does, where
  // ^ and $ do not bind it.
  bool is_search = false;
  // How one code point of a set is spelled; the default is UTF-8.
  std::function<GrammarBuilder::Expr(const CodePoints&)> chars = nullptr;
};

// The same as an expression of `builder`.
absl::StatusOr<GrammarBuilder::Expr> AddRegex(absl::string_view pattern,
                                              const RegexOptions& options,
                                              GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_GRAMMAR_H_
