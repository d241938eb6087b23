// The experts that have rows in a step.
#ifndef PLIMSOLL_KERNELS_CPU_EXPERTS_ACTIVE_EXPERTS_H_
#define PLIMSOLL_KERNELS_CPU_EXPERTS_ACTIVE_EXPERTS_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/experts.h"

namespace plimsoll::kernels::cpu {

// An expert and its places.
struct ExpertGroup {
  int64_t expert;
  int64_t begin;  // its first place
  int64_t n_rows;
};

class ActiveExperts {
 public:
  explicit ActiveExperts(const ExpertRows& rows) : begins_(rows.begins) {
    for (int64_t e = 0; e < rows.n_experts; ++e) {
      if (begins_[e] == begins_[e + 1]) continue;
      experts_[static_cast<size_t>(n_++)] = static_cast<int32_t>(e);
    }
  }

  int64_t n() const { return n_; }
  ExpertGroup Of(int64_t i) const {
    const int64_t e = experts_[static_cast<size_t>(i)];
    return {e, begins_[e], begins_[e + 1] - begins_[e]};
  }

  // Calls call(group, first, end) for the ranges of places [begin, end), which
  // are rows [first, end) of the group.
  template <class Call>
  void ForEachRange(int64_t begin, int64_t end, const Call& call) const {
    const auto* const after =
        std::partition_point(experts_.begin(), experts_.begin() + n_,
                             [&](int32_t e) { return begins_[e] <= begin; });
    for (int64_t i = after - experts_.begin() - 1; begin < end; ++i) {
      const ExpertGroup group = Of(i);
      const int64_t range_end = std::min(end, group.begin + group.n_rows);
      call(group, begin - group.begin, range_end - group.begin);
      begin = range_end;
    }
  }

 private:
  const int32_t* begins_;
  int64_t n_ = 0;
  std::array<int32_t, kMaxExperts> experts_;  // the first n_ are set
};

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_EXPERTS_ACTIVE_EXPERTS_H_
