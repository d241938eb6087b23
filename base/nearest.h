// Finds the name that somebody meant who wrote a name that does not exist.
#ifndef PLIMSOLL_BASE_NEAREST_H_
#define PLIMSOLL_BASE_NEAREST_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace plimsoll {

// Longer words are compared by their first bytes.
inline constexpr size_t kMaxComparedBytes = 64;

// The restricted Damerau-Levenshtein distance.
inline size_t LetterDistance(absl::string_view a, absl::string_view b) {
  // Rows i - 2, i - 1 and i of the table.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1,
                         last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// Returns the first of `names` that begins with `word` or, if there is none,
// the first one with the fewest letters that are wrong, missing, too many or
// swapped with their neighbour. Requires a name.
inline absl::string_view Nearest(absl::string_view word,
                                 std::span<const absl::string_view> names) {
  const absl::string_view compared = word.substr(0, kMaxComparedBytes);
  for (const absl::string_view name : names) {
    if (!compared.empty() && absl::StartsWith(name, compared)) return name;
  }
  return *std::min_element(
      names.begin(), names.end(), [&](auto one, auto other) {
        return LetterDistance(compared, one) < LetterDistance(compared, other);
      });
}

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_NEAREST_H_
