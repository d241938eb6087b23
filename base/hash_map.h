// A hash table that ends the process if it gets no memory.
#ifndef PLIMSOLL_BASE_HASH_MAP_H_
#define PLIMSOLL_BASE_HASH_MAP_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace plimsoll {

// Ends the process if there is no memory.
template <typename T>
struct FatalAllocator {
  using value_type = T;

  FatalAllocator() = default;
  // Containers convert the allocator of one type to that of another.
  template <typename Other>
  // NOLINTNEXTLINE(google-explicit-constructor)
  FatalAllocator(const FatalAllocator<Other>&) noexcept {}

  // An exception of the real allocator ends here, in std::terminate().
  T* allocate(size_t n) noexcept { return std::allocator<T>().allocate(n); }
  void deallocate(T* first, size_t n) noexcept {
    std::allocator<T>().deallocate(first, n);
  }
  friend bool operator==(const FatalAllocator&, const FatalAllocator&) {
    return true;
  }
};

// A fast table. If its allocator throws, Abseil's own table later frees memory
// that it never got; this one ends the process instead. Tables of requests that
// are not hot are those of the standard library, which bear exceptions.
template <typename Key, typename Value>
using HashMap =
    absl::flat_hash_map<Key, Value,
                        typename absl::flat_hash_map<Key, Value>::hasher,
                        typename absl::flat_hash_map<Key, Value>::key_equal,
                        FatalAllocator<std::pair<const Key, Value>>>;

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_HASH_MAP_H_
