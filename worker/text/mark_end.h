// Finds the end of a text that may become a mark when more text comes.
#ifndef PLIMSOLL_WORKER_TEXT_MARK_END_H_
#define PLIMSOLL_WORKER_TEXT_MARK_END_H_

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The length of the longest end of `text` that is a beginning of `mark`, but
// not the whole mark. `mark` is not empty.
inline size_t EndThatBegins(absl::string_view mark, absl::string_view text) {
  for (size_t n = std::min(mark.size() - 1, text.size()); n > 0; --n) {
    if (absl::EndsWith(text, mark.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_MARK_END_H_
