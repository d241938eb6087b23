// Changes of load options that may make a plan fit, in the command line's
// words.
#ifndef PLIMSOLL_PLANNER_LAYOUT_CHANGE_H_
#define PLIMSOLL_PLANNER_LAYOUT_CHANGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

inline constexpr int64_t kSmallestUbatch = 16;

// What is changed together.
struct Change {
  LoadOptions options;
  int64_t n_ctx;
  std::string text;  // "--n-ubatch 64 --slots 1"

  void Append(absl::string_view flag) {
    absl::StrAppend(&text, text.empty() ? "" : " ", flag);
  }
};

// The change with keys and values of `type`.
inline Change WithKvType(Change change, DType type) {
  change.options.k_type = change.options.v_type = type;
  change.Append(absl::StrCat("--kv-type ", DTypeName(type)));
  return change;
}

// The change without room for contexts that wait.
inline Change WithoutParked(Change change) {
  change.options.n_parked = 0;
  change.Append("--parked-slots 0");
  return change;
}

// Halves n_ubatch until `helps`, called with the change, is true.
template <typename Helps>
void TrySmallerUbatch(const Change& base, const Helps& helps) {
  int64_t n_ubatch = base.options.n_ubatch;
  bool found = false;
  while (!found && n_ubatch > kSmallestUbatch) {
    n_ubatch = std::max(kSmallestUbatch, n_ubatch / 2);
    Change change = base;
    change.options.n_ubatch = n_ubatch;
    change.Append(absl::StrCat("--n-ubatch ", n_ubatch));
    found = helps(change);
  }
}

// The change with the most slots, fewer than now, for which `fits` is true.
template <typename Fits>
std::optional<Change> WithMostSlots(Change change, const Fits& fits) {
  int64_t fitting = 0;
  int64_t failing = change.options.n_slots;
  while (failing - fitting > 1) {
    const int64_t middle = fitting + (failing - fitting) / 2;
    change.options.n_slots = middle;
    (fits(change) ? fitting : failing) = middle;
  }
  if (fitting == 0) return std::nullopt;
  change.options.n_slots = fitting;
  change.Append(absl::StrCat("--slots ", fitting));
  return change;
}

// Every reduction at once: the smallest n_ubatch, keys and values of `kv_type`
// if there is one, one slot, and nobody who waits.
inline Change WithLeast(Change change, std::optional<DType> kv_type) {
  if (change.options.n_ubatch > kSmallestUbatch) {
    change.options.n_ubatch = kSmallestUbatch;
    change.Append(absl::StrCat("--n-ubatch ", kSmallestUbatch));
  }
  if (kv_type) change = WithKvType(change, *kv_type);
  if (change.options.n_parked > 0) change = WithoutParked(change);
  if (change.options.n_slots > 1) {
    change.options.n_slots = 1;
    change.Append("--slots 1");
  }
  return change;
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_CHANGE_H_
