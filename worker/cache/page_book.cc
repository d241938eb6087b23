#include "worker/cache/page_book.h"

#include "base/status_macros.h"

namespace plimsoll::worker {

PageBook::PageBook(int64_t n_pages)
    : states_(static_cast<size_t>(n_pages)), n_free_(n_pages) {
  for (int64_t page = 0; page < n_pages; ++page) {
    states_[static_cast<size_t>(page)] =
        static_cast<PageState>(-1 - (page + 1));
  }
}

int32_t PageBook::Take() {
  PLIMSOLL_CHECK(n_free_ > 0, "free pages were counted");
  const int32_t page = first_free_;
  first_free_ = -1 - State(page);
  states_[static_cast<size_t>(page)] = 1;
  --n_free_;
  return page;
}

bool PageBook::AddUser(int32_t page) {
  PLIMSOLL_CHECK(State(page) >= 0, "a free page is taken, not shared");
  return states_[static_cast<size_t>(page)]++ == 0;
}

bool PageBook::RemoveUser(int32_t page) {
  PLIMSOLL_CHECK(State(page) > 0, "only users give pages back");
  return --states_[static_cast<size_t>(page)] == 0;
}

void PageBook::Free(int32_t page) {
  PLIMSOLL_CHECK(IsUnused(page), "a page is freed once, when unused");
  states_[static_cast<size_t>(page)] = -1 - first_free_;
  first_free_ = page;
  ++n_free_;
}

}  // namespace plimsoll::worker
