#include "worker/text/tokenizer/token_list.h"

#include <algorithm>
#include <limits>

namespace plimsoll::worker {

void TokenList::Reserve(size_t n) {
  ids_.reserve(n);
  shared_.reserve(n);
  begins_.reserve(n + 1);
}

void TokenList::Add(int32_t id, size_t n_shared, absl::string_view rest) {
  ids_.push_back(id);
  shared_.push_back(static_cast<uint16_t>(n_shared));
  begins_.push_back(static_cast<uint32_t>(bytes_.size()));
  bytes_.insert(bytes_.end(), rest.begin(), rest.end());
}

void TokenList::Finish() {
  begins_.push_back(static_cast<uint32_t>(bytes_.size()));
  ids_.shrink_to_fit();
  shared_.shrink_to_fit();
  begins_.shrink_to_fit();
  bytes_.shrink_to_fit();
  const size_t n = ids_.size();
  steps_.resize(n);
  // Entries after `i` that share less than all between them and `i`; the last
  // one is the nearest.
  std::vector<size_t> smaller;
  for (size_t i = n; i-- > 0;) {
    while (!smaller.empty() && shared_[smaller.back()] > shared_[i]) {
      smaller.pop_back();
    }
    const size_t next = smaller.empty() ? n : smaller.back();
    steps_[i] = static_cast<uint16_t>(
        std::min<size_t>(next - i, std::numeric_limits<uint16_t>::max()));
    smaller.push_back(i);
  }
}

int64_t TokenList::MemoryBytes() const {
  return static_cast<int64_t>(ids_.capacity() * sizeof(int32_t) +
                              shared_.capacity() * 2 + steps_.capacity() * 2 +
                              begins_.capacity() * sizeof(uint32_t) +
                              bytes_.capacity());
}

}  // namespace plimsoll::worker
