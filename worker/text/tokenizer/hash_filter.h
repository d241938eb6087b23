// A quick test that an element is not in a set.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_HASH_FILTER_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_HASH_FILTER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// Returns a hash of the first and the last eight bytes and of the length. It is
// quick, and good enough for a filter.
inline uint64_t HashEnds(absl::string_view text) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  const size_t n = text.size();
  uint64_t low = 0;
  uint64_t high = 0;
  if (n >= 8) {
    std::memcpy(&low, text.data(), 8);
    std::memcpy(&high, text.data() + n - 8, 8);
  } else if (n >= 4) {
    std::memcpy(&low, text.data(), 4);
    std::memcpy(&high, text.data() + n - 4, 4);
  } else {
    std::memcpy(&low, text.data(), n);
  }
  const uint64_t mixed = (low ^ std::rotl(high, 29) ^ n << 56) * kMix;
  return (mixed ^ mixed >> 32) * kMix;
}

// A filter with one bit for each hash, and eight bits for each element that it
// has room for. It fits in a near cache even if the table behind it does not.
class HashFilter {
 public:
  // Makes room for `n_elements` elements and removes all.
  void Reset(size_t n_elements) {
    bits_.assign(std::bit_ceil(n_elements / 8 + 1), 0);
  }
  // Reset must come before Add and MayHave.
  void Add(uint64_t hash) { bits_[WordOf(hash)] |= BitOf(hash); }
  // False only if no element of this hash was added.
  bool MayHave(uint64_t hash) const {
    return (bits_[WordOf(hash)] & BitOf(hash)) != 0;
  }
  int64_t MemoryBytes() const {
    return static_cast<int64_t>(bits_.capacity() * sizeof(uint64_t));
  }

 private:
  // The place comes from the upper half of the hash, which tables do not use.
  size_t WordOf(uint64_t hash) const {
    return static_cast<size_t>(hash >> 38) & (bits_.size() - 1);
  }
  static uint64_t BitOf(uint64_t hash) {
    return uint64_t{1} << (hash >> 32 & 63);
  }

  std::vector<uint64_t> bits_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_HASH_FILTER_H_
