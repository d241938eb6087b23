// The k largest of the values inserted so far, in descending order; equal
// values by ascending id.
#ifndef PLIMSOLL_KERNELS_CPU_TOP_LIST_H_
#define PLIMSOLL_KERNELS_CPU_TOP_LIST_H_

#include <cstdint>
#include <limits>

#include "kernels/backend.h"

namespace plimsoll::kernels::cpu {

struct TopList {
  float values[kMaxCandidates];
  int32_t ids[kMaxCandidates];
  int64_t n;

  // True if (value, id) belongs to the k <= kMaxCandidates largest. NaN never
  // does.
  bool Takes(float value, int32_t id, int64_t k) const {
    if (n < k) return value == value;
    const float least = values[k - 1];
    return value > least || (value == least && id < ids[k - 1]);
  }

  // Inserts (value, id), for which Takes() is true. Few values are inserted
  // once the list is full.
  void Insert(float value, int32_t id, int64_t k) {
    int64_t i = n < k ? n++ : k - 1;
    for (; i > 0; --i) {
      const float above = values[i - 1];
      if (above > value || (above == value && ids[i - 1] < id)) break;
      values[i] = above;
      ids[i] = ids[i - 1];
    }
    values[i] = value;
    ids[i] = id;
  }

  // The k-th largest value, or -infinity as long as there are fewer.
  float Least(int64_t k) const {
    return n < k ? -std::numeric_limits<float>::infinity() : values[k - 1];
  }
};

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_TOP_LIST_H_
