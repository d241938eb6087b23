// Checks whether a page pool that is smaller than all slots together has enough
// pages, and chooses the sequence that loses its slot if not. Pure arithmetic.
#ifndef PLIMSOLL_WORKER_CACHE_PAGE_CLAIMS_H_
#define PLIMSOLL_WORKER_CACHE_PAGE_CLAIMS_H_

#include <cstdint>
#include <optional>
#include <span>

namespace plimsoll::worker {

// The pages that one taken slot claims.
struct PageClaim {
  int64_t id;         // the sequence; 0 for an idle session
  int64_t n_to_come;  // pages that it will need and does not have
  bool can_leave;     // its context can be computed again
};

// The pages that all claims together still need.
int64_t PromisedPages(std::span<const PageClaim> claims);

// The sequence that must give its slot and pages back, because more pages are
// promised than `free_pages`. `claims` begins with the oldest sequence, and the
// newest one that can leave is chosen. Returns nullopt if the pages suffice, or
// if no sequence can leave.
std::optional<int64_t> ChooseVictim(std::span<const PageClaim> claims,
                                    int64_t free_pages);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PAGE_CLAIMS_H_
