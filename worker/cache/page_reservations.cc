#include "worker/cache/page_reservations.h"

#include <algorithm>
#include <cstddef>

#include "kernels/tensor_view.h"

namespace plimsoll::worker {

PageReservations::PageReservations(const KvCache& cache)
    : cache_(cache), is_held_(static_cast<size_t>(cache.n_pages())) {}

void PageReservations::Clear() {
  n_reserved_ = 0;
  std::fill(is_held_.begin(), is_held_.end(), false);
}

void PageReservations::Add(int64_t slot, int64_t n_positions) {
  for (const kernels::PageEntry& entry : cache_.Pages(slot)) {
    const auto page = static_cast<size_t>(entry.page);
    if (is_held_[page]) continue;
    is_held_[page] = true;
    ++n_reserved_;
  }
  n_reserved_ += cache_.MissingPages(slot, n_positions);
}

int64_t PageReservations::CountHeld(std::span<const int32_t> pages) const {
  return std::count_if(pages.begin(), pages.end(), [this](int32_t page) {
    return is_held_[static_cast<size_t>(page)];
  });
}

}  // namespace plimsoll::worker
