// The common parts of the readers of GBNF and of regular expressions: limits of
// the text, and the syntax that both share.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SOURCE_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// Errors: kInvalidArgument where `text` is longer than
// Grammar::kMaxSourceBytes.
absl::Status CheckSourceSize(absl::string_view text);

// Errors: those of CheckSourceSize; kInvalidArgument where it is not UTF-8.
absl::Status CheckSource(absl::string_view text);

// Each of the functions below removes its part from the front of `text`.
// Errors: kInvalidArgument; `text` then begins at the mistake.

struct RepeatCounts {
  int64_t min;
  int64_t max;  // may be GrammarBuilder::kUnlimited
};
// Takes "m}", "m,}" or "m,n}", the text after the brace of a repetition.
absl::StatusOr<RepeatCounts> TakeRepeatCounts(absl::string_view& text);

// Takes the `n_digits` hexadecimal digits of an escape. Returns the code point,
// which is no surrogate.
absl::StatusOr<uint32_t> TakeHexEscape(size_t n_digits,
                                       absl::string_view& text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SOURCE_H_
