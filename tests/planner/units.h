// Sizes and times as the tests of planner/ write them.
#ifndef PLIMSOLL_TESTS_PLANNER_UNITS_H_
#define PLIMSOLL_TESTS_PLANNER_UNITS_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace plimsoll::planner {

inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// The time `seconds` after a book's first moment.
inline absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_UNITS_H_
