// Finds the name of a pre-tokenizer from the expressions in a tokenizer.json.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_NAMES_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_NAMES_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The expression of GPT-2, which "ByteLevel" uses unless the file says
// otherwise, and the expression of "Digits".
inline constexpr absl::string_view kGpt2Expression =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+)"
    R"(| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr absl::string_view kDigitExpression = R"(\p{N})";

// Returns the name (FindPreTokenizer) of the pre-tokenizer that cuts text by
// `expressions`, each of which cuts the pieces of the expression before.
// `whole_pieces_first` is the file's "ignore_merges". If several names have
// equal rules, the most frequent name is returned.
// Errors: kUnimplemented with the expressions, if no known pre-tokenizer has
// them in this spelling.
absl::StatusOr<absl::string_view> NameOfPreTokenizer(
    std::span<const std::string> expressions, bool whole_pieces_first);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_NAMES_H_
