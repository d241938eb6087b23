// Pre-tokenizers as lists of regular expressions, run by PCRE2: what the
// scanners by hand must equal.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_REGEX_PRETOKENIZER_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_REGEX_PRETOKENIZER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The pieces of `text` by the pre-tokenizer `name`, the first name of its rule
// in the tests.
std::vector<std::string> SplitByRegex(absl::string_view name,
                                      absl::string_view text);

// The pieces of `text` by `expressions`, each of which cuts what the one before
// left.
std::vector<std::string> SplitByExpressions(
    const std::vector<std::string>& expressions, absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_REGEX_PRETOKENIZER_H_
