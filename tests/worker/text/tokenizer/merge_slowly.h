// Merging as it is defined, for tests of what does it quickly.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_MERGE_SLOWLY_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_MERGE_SLOWLY_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "worker/text/tokenizer/pair_merge.h"

namespace plimsoll::worker {

// Scans all pairs, joins the one of the lowest rank and leftmost among equals,
// and begins again until there is none. `rank_of(left, right)` is kNoRank for
// two that are never joined.
template <typename RankOf>
std::vector<std::string> MergeSlowly(std::vector<std::string> parts,
                                     const RankOf& rank_of) {
  std::vector<uint32_t> ranks(parts.size(),
                              kNoRank);  // ranks of pairs, by the left
  const auto look_up = [&](size_t i) {
    ranks[i] = i + 1 < parts.size() ? rank_of(parts[i], parts[i + 1]) : kNoRank;
  };
  for (size_t i = 0; i < parts.size(); ++i) look_up(i);
  while (!parts.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < parts.size(); ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    parts[best] += parts[best + 1];
    const auto gone = static_cast<std::ptrdiff_t>(best) + 1;
    parts.erase(parts.begin() + gone);
    ranks.erase(ranks.begin() + gone);
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  return parts;
}

inline std::vector<std::string> BytesOf(const std::string& text) {
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  return bytes;
}

// `n` of the first `n_letters` letters.
inline std::string RandomWord(std::mt19937& random, size_t n,
                              size_t n_letters) {
  std::string text;
  for (; n > 0; --n) text += static_cast<char>('a' + random() % n_letters);
  return text;
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_MERGE_SLOWLY_H_
