#include "planner/fleet/placement_search.h"

#include <algorithm>
#include <vector>

#include "base/checked_math.h"

namespace plimsoll::planner {
namespace {

class Search {
 public:
  Search(const PlacementProblem& problem, Packing& best, const StopCheck& stop)
      : problem_(problem), packing_(problem, stop), best_(best) {
    for (int64_t m = 0; m < packing_.n_models(); ++m) {
      for (int64_t r = 0; r < packing_.n_placeable(m); ++r) {
        replicas_.push_back(m);
      }
    }
    // Large replicas come first, because they have the fewest choices.
    std::stable_sort(replicas_.begin(), replicas_.end(),
                     [this](int64_t a, int64_t b) {
                       if (packing_.LevelOf(a) != packing_.LevelOf(b)) {
                         return packing_.LevelOf(a) < packing_.LevelOf(b);
                       }
                       return packing_.LeastBytes(a) > packing_.LeastBytes(b);
                     });
    best_score_ = best.Score();
  }

  bool Run() {
    if (replicas_.size() > Index(kMaxSearchReplicas) ||
        packing_.n_devices() > kMaxSearchDevices) {
      return false;
    }
    Descend(0, 0);
    return trials_ <= kMaxSearchTrials && !packing_.IsStopped();
  }

 private:
  // Decides replicas_[next] and those after it. Replicas of one model are
  // alike: they go to devices from `first` on, and those that are not placed
  // come last.
  void Descend(size_t next, int64_t first) {
    if (trials_ > kMaxSearchTrials || packing_.IsStopped()) return;
    if (next == replicas_.size()) {
      PackingScore score = packing_.Score();
      if (score > best_score_) {
        best_score_ = std::move(score);
        best_ = packing_;
      }
      return;
    }
    if (Optimistic(next) <= best_score_) return;
    const int64_t model = replicas_[next];
    size_t after = next + 1;
    const bool has_twin = after < replicas_.size() && replicas_[after] == model;
    std::vector<int64_t> tried;
    for (int64_t d = first; d < packing_.n_devices(); ++d) {
      ++trials_;
      if (!packing_.CanHold(model, d) || IsLikeOneOf(tried, model, d)) continue;
      tried.push_back(d);
      packing_.Add(model, d);
      Descend(next + 1, has_twin ? d : 0);
      packing_.Remove(model, d);
    }
    while (after < replicas_.size() && replicas_[after] == model) ++after;
    Descend(after, 0);
  }

  // True if `device` can still hold exactly what a device in `tried` can hold.
  bool IsLikeOneOf(const std::vector<int64_t>& tried, int64_t model,
                   int64_t device) const {
    return std::any_of(tried.begin(), tried.end(), [&](int64_t other) {
      return problem_.devices[Index(other)].device_class ==
                 problem_.devices[Index(device)].device_class &&
             packing_.Free(other) == packing_.Free(device) &&
             packing_.IsUsed(other) == packing_.IsUsed(device) &&
             packing_.CountOn(model, other) == packing_.CountOn(model, device);
    });
  }

  // The score that no packing can exceed which keeps what is placed so far.
  PackingScore Optimistic(size_t next) const {
    PackingScore score = packing_.Score();
    int64_t free_used = 0;
    int64_t free_bytes = 0;
    int64_t largest_unused = 0;
    for (int64_t d = 0; d < packing_.n_devices(); ++d) {
      free_bytes += packing_.Free(d);
      if (packing_.IsUsed(d)) {
        free_used += packing_.Free(d);
      } else {
        largest_unused = std::max(largest_unused, packing_.Free(d));
      }
    }
    // Each level counts as many replicas as the bytes of its smallest ones
    // allow; these are last in the order.
    int64_t bytes = 0;
    bool all = true;
    for (size_t end = replicas_.size(); end > next;) {
      const int64_t level = packing_.LevelOf(replicas_[end - 1]);
      int64_t level_bytes = 0;
      int64_t n = 0;
      for (; end > next && packing_.LevelOf(replicas_[end - 1]) == level;
           --end) {
        level_bytes += packing_.LeastBytes(replicas_[end - 1]);
        if (level_bytes <= free_bytes) ++n;
        all &= level_bytes <= free_bytes;
      }
      score.placed[Index(level)] += n;
      bytes += level_bytes;
    }
    // If all must be placed, new devices must hold what the used ones cannot.
    if (all && bytes > free_used && largest_unused > 0) {
      score.n_unused -= CeilDiv(bytes - free_used, largest_unused);
    }
    return score;
  }

  const PlacementProblem& problem_;
  std::vector<int64_t> replicas_;  // models, in the order of the decisions
  Packing packing_;
  Packing& best_;
  PackingScore best_score_;
  int64_t trials_ = 0;
};

}  // namespace

bool SearchPlacement(const PlacementProblem& problem, Packing& best,
                     const StopCheck& stop) {
  return Search(problem, best, stop).Run();
}

}  // namespace plimsoll::planner
