// Which pages of the KV cache are free, and how many slots use each of the
// others.
#ifndef PLIMSOLL_WORKER_CACHE_PAGE_BOOK_H_
#define PLIMSOLL_WORKER_CACHE_PAGE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::worker {

// A page is free, or used by slots, or unused: remembered for its tokens,
// though no slot uses it. Never allocates after its beginning. Not thread-safe.
class PageBook {
 public:
  // How many slots use a page. A state below zero is that of a free page; the
  // free page after it is -1 - state, and n_pages() ends the list.
  using PageState = int32_t;

  // All pages are free. Requires less than 2^31 of them.
  explicit PageBook(int64_t n_pages);

  int64_t n_pages() const { return static_cast<int64_t>(states_.size()); }
  int64_t n_free() const { return n_free_; }
  // The page that Take gives next: the one that was freed last. Requires one.
  int32_t NextFree() const { return first_free_; }
  // Takes NextFree() for one slot.
  int32_t Take();

  // For a page that is not free.
  bool IsUnused(int32_t page) const { return State(page) == 0; }
  // Returns true if the page was unused.
  bool AddUser(int32_t page);
  // Returns true if the page is unused now.
  bool RemoveUser(int32_t page);
  // Frees an unused page.
  void Free(int32_t page);

  // Bytes of host memory.
  int64_t Bytes() const {
    return static_cast<int64_t>(states_.capacity() * sizeof(PageState));
  }

 private:
  PageState State(int32_t page) const {
    return states_[static_cast<size_t>(page)];
  }

  std::vector<PageState> states_;  // by page
  int32_t first_free_ = 0;
  int64_t n_free_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PAGE_BOOK_H_
