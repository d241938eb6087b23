// The names of pre-tokenizers by the expressions that a tokenizer.json has.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_NAMES_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_NAMES_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The expression of GPT-2, by which "ByteLevel" cuts where a file does not say
// otherwise, and the one of "Digits".
inline constexpr absl::string_view kGpt2Expression =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+)"
    R"(| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr absl::string_view kDigitExpression = R"(\p{N})";

// Returns the name (FindPreTokenizer) of the pre-tokenizer that cuts text by
// `expressions`, each of which cuts what the one before left.
// `whole_pieces_first` is the file's "ignore_merges". Among names of equal
// rules it is the one that most files have.
// Errors: kUnimplemented with the expressions, if none of the known ones is
// spelled like that.
absl::StatusOr<absl::string_view> NameOfPreTokenizer(
    std::span<const std::string> expressions, bool whole_pieces_first);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_NAMES_H_
