// Searches for changes of load options that make a plan fit.
#ifndef PLIMSOLL_PLANNER_LAYOUT_CHANGE_H_
#define PLIMSOLL_PLANNER_LAYOUT_CHANGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

inline constexpr int64_t kSmallestUbatch = 16;

// Halves `n_ubatch` until `helps`, called with the change, is true.
template <typename Helps>
void TrySmallerUbatch(int64_t n_ubatch, const Helps& helps) {
  bool found = false;
  while (!found && n_ubatch > kSmallestUbatch) {
    n_ubatch = std::max(kSmallestUbatch, n_ubatch / 2);
    found = helps(Change{.n_ubatch = n_ubatch});
  }
}

// The most slots, fewer than `n_slots`, for which `fits`, called with the
// change, is true.
template <typename Fits>
std::optional<Change> MostSlots(int64_t n_slots, const Fits& fits) {
  int64_t fitting = 0;
  int64_t failing = n_slots;
  while (failing - fitting > 1) {
    const int64_t middle = fitting + (failing - fitting) / 2;
    (fits(Change{.n_slots = middle}) ? fitting : failing) = middle;
  }
  if (fitting == 0) return std::nullopt;
  return Change{.n_slots = fitting};
}

// Every reduction at once: the smallest n_ubatch, keys and values of `kv_type`
// if there is one, one slot, and no room for contexts that wait. Empty if
// `options` are as small as that.
inline Change EveryReduction(const LoadOptions& options,
                             std::optional<DType> kv_type) {
  Change change = {.kv_type = kv_type};
  if (options.n_ubatch > kSmallestUbatch) change.n_ubatch = kSmallestUbatch;
  if (options.n_parked > 0) change.n_parked = 0;
  if (options.n_slots > 1) change.n_slots = 1;
  return change;
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_CHANGE_H_
