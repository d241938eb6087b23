// Scores for a vocabulary whose file ranks its merges. SentencePiece merges two
// symbols by the score of the resulting token.
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

// Returns a score for each token: minus the place of its first merge. Then
// merging by score equals merging by rank, except that among pairs that make
// the same token the leftmost goes first, as in SentencePiece. `is_cut_out[i]`
// is true for tokens that no merge makes, such as tokens that are found in the
// text before merging. All merges that make the same token must have
// consecutive ranks, and every two symbols that make a token must have a merge.
// Errors: kUnimplemented naming a merge that breaks these rules;
// kInvalidArgument naming a merge that makes no token.
absl::StatusOr<std::vector<float>> ScoresOfMerges(
    const std::vector<std::string>& tokens, const std::vector<bool>& is_cut_out,
    const std::vector<Merge>& merges);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_MERGE_SCORES_H_
