// Scores for a vocabulary whose file ranks its merges: SentencePiece merges by
// the score of what becomes of two symbols.
#ifndef PLIMSOLL_SERVICES_CONVERT_MERGE_SCORES_H_
#define PLIMSOLL_SERVICES_CONVERT_MERGE_SCORES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace plimsoll::services {

// Two texts that are joined.
using Merge = std::pair<std::string, std::string>;

// Returns a score for each token: minus the place of its first merge. Merging
// by score is then merging by rank, except that the leftmost goes first among
// pairs that make the same token, as SentencePiece has it. `is_cut_out[i]` is
// true for tokens that no merging makes, such as those that text is searched
// for before. All merges that make a token must have ranks side by side, and
// every two symbols that make a token must have a merge. Errors: kUnimplemented
// naming a merge for which that is not so; kInvalidArgument naming a merge that
// makes no token.
absl::StatusOr<std::vector<float>> ScoresOfMerges(
    const std::vector<std::string>& tokens, const std::vector<bool>& is_cut_out,
    const std::vector<Merge>& merges);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_MERGE_SCORES_H_
