// Whether the pages of a pool that is smaller than all slots together go round,
// and who leaves where they do not: pure arithmetic.
#ifndef PLIMSOLL_WORKER_CACHE_PAGE_CLAIMS_H_
#define PLIMSOLL_WORKER_CACHE_PAGE_CLAIMS_H_

#include <cstdint>
#include <optional>
#include <span>

namespace plimsoll::worker {

// Of one slot that is taken.
struct PageClaim {
  int64_t id;         // of the sequence; 0 for a session that nobody uses
  int64_t n_to_come;  // pages that it will need and does not have
  bool can_leave;     // what it has computed can be computed again
};

// Pages that are promised already.
int64_t PromisedPages(std::span<const PageClaim> claims);

// Who gives its slot and pages back, the oldest of `claims` first: the newest
// one that can leave, if more is promised than `free_pages`; nullopt if it is
// not, or nobody can.
std::optional<int64_t> WhoLeaves(std::span<const PageClaim> claims,
                                 int64_t free_pages);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PAGE_CLAIMS_H_
