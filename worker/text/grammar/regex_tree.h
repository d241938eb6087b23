// Regular expressions as trees.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_TREE_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {

struct RegexNode {
  enum class Kind : uint8_t {
    kChars,     // one code point of `set`
    kSequence,  // all parts, in order; none is the empty text
    kChoice,    // one of the parts
    kRepeat,    // the only part, `min` to `max` times
    kBegin,     // ^
    kEnd,       // $
  };
  Kind kind = Kind::kSequence;
  CodePoints set = {};
  std::vector<RegexNode> parts = {};
  int64_t min = 0;
  int64_t max = 0;  // may be GrammarBuilder::kUnlimited
};

// The syntax that a pattern may use.
enum class RegexSyntax {
  // The syntax in docs/structured_output.md: ^ and $ at the ends only, ASCII
  // classes, nothing that is useless in a whole match.
  kPlain,
  // ECMA-262, as JSON schema asks for: also ^ and $ anywhere, names of groups,
  // lazy repetition (which matches the same texts), \s and . by that standard,
  // and braces and hyphens that can only be literals.
  kEcma,
};

// The part of a text that a pattern must match: the whole text, or any part, as
// in a search.
enum class RegexMatch { kWhole, kAnywhere };

// Parses `pattern`. The tree is at most some hundreds of nodes deep.
// Errors: kInvalidArgument naming the byte and the fault or unsupported
// feature.
absl::StatusOr<RegexNode> ParseRegex(absl::string_view pattern,
                                     RegexSyntax syntax);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_REGEX_TREE_H_
