#include "worker/sampling/prompt_lookup.h"

#include <algorithm>
#include <cstddef>

namespace plimsoll::worker {
namespace {

// Tokens that `tokens` has in common, at most kMaxLookupMatch, before `end` and
// before its own end.
int64_t CommonEnd(std::span<const int32_t> tokens, int64_t end) {
  const auto size = static_cast<int64_t>(tokens.size());
  const int64_t most = std::min(end, kMaxLookupMatch);
  int64_t n = 0;
  while (n < most && tokens[static_cast<size_t>(end - 1 - n)] ==
                         tokens[static_cast<size_t>(size - 1 - n)]) {
    ++n;
  }
  return n;
}

}  // namespace

std::span<const int32_t> LookUpDraft(std::span<const int32_t> tokens,
                                     int64_t n) {
  if (std::ssize(tokens) > kLookupTokens) tokens = tokens.last(kLookupTokens);
  const auto size = static_cast<int64_t>(tokens.size());
  int64_t best = kMinLookupMatch - 1;
  int64_t found = size;
  for (int64_t end = size - 1; end > 0 && best < kMaxLookupMatch; --end) {
    const int64_t common = CommonEnd(tokens, end);
    if (common <= best) continue;
    best = common;
    found = end;
  }
  return tokens.subspan(
      static_cast<size_t>(found),
      static_cast<size_t>(std::clamp<int64_t>(n, 0, size - found)));
}

}  // namespace plimsoll::worker
