#include "worker/cache/page_claims.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::worker {

int64_t PromisedPages(std::span<const PageClaim> claims) {
  int64_t n = 0;
  for (const PageClaim& claim : claims) n += claim.n_to_come;
  return n;
}

std::optional<int64_t> ChooseVictim(std::span<const PageClaim> claims,
                                    int64_t free_pages) {
  if (PromisedPages(claims) <= free_pages) return std::nullopt;
  const auto newest =
      std::find_if(claims.rbegin(), claims.rend(),
                   [](const PageClaim& claim) { return claim.can_leave; });
  if (newest == claims.rend()) return std::nullopt;
  return newest->id;
}

}  // namespace plimsoll::worker
