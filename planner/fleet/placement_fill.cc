#include "planner/fleet/placement_fill.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/fleet/placement_moves.h"

namespace plimsoll::planner {
namespace {

// Adds up to want[model] replicas of each model, in `order`.
void Fill(const std::vector<int64_t>& order, const std::vector<int64_t>& want,
          Opening opening, Packing& packing) {
  for (int64_t model : order) {
    int64_t left = want[Index(model)];
    while (left > 0 && !packing.IsStopped()) {
      const int64_t device = BestFit(packing, model, opening);
      if (device < 0) break;
      // The device that fits most closely keeps doing so while it has room.
      do {
        packing.Add(model, device);
        --left;
      } while (left > 0 && packing.CanHold(model, device));
    }
  }
}

// Chooses the replicas that fill one device best: the largest that fits, and
// with it the combination of others that leaves least.
class DeviceFiller {
 public:
  DeviceFiller(const std::vector<int64_t>& order, std::vector<int64_t>& left,
               Packing& packing)
      : order_(order), left_(left), packing_(packing) {}

  // Adds replicas to `device` until no remaining one fits.
  void Fill(int64_t device) {
    while (true) {
      Collect(device);
      if (candidates_.empty()) return;
      const int64_t free = packing_.Free(device);
      least_rest_ = free;
      enough_ = free / kTolerance;
      steps_ = 0;
      Take(0, free);
      for (int64_t model : best_) {
        packing_.Add(model, device);
        --left_[Index(model)];
      }
    }
  }

 private:
  // A rest of less than one part in this many counts as none.
  static constexpr int64_t kTolerance = 512;
  static constexpr int64_t kMaxSteps = 400;
  static constexpr size_t kMaxDepth = 64;

  struct Candidate {
    int64_t model;
    int64_t bytes;
    int64_t n;  // replicas that may be taken
  };

  // Lists what may go on `device`, the largest first.
  void Collect(int64_t device) {
    candidates_.clear();
    for (int64_t model : order_) {
      if (left_[Index(model)] > 0 && packing_.CanHold(model, device)) {
        candidates_.push_back({model, packing_.BytesOn(model, device),
                               std::min(left_[Index(model)],
                                        packing_.SpreadLeft(model, device))});
      }
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.bytes > b.bytes;
                     });
  }

  // Takes candidate `i`, and then tries all combinations of candidates from `i`
  // on.
  void Take(size_t i, int64_t free) {
    ++steps_;
    free -= candidates_[i].bytes;
    --candidates_[i].n;
    taken_.push_back(candidates_[i].model);
    if (free < least_rest_) {
      least_rest_ = free;
      best_ = taken_;
    }
    if (taken_.size() < kMaxDepth) {
      const auto first_fit = std::partition_point(
          candidates_.begin() + static_cast<int64_t>(i), candidates_.end(),
          [free](const Candidate& c) { return c.bytes > free; });
      for (size_t j = static_cast<size_t>(first_fit - candidates_.begin());
           j < candidates_.size(); ++j) {
        if (least_rest_ <= enough_ || steps_ >= kMaxSteps) break;
        if (candidates_[j].n > 0) Take(j, free);
      }
    }
    taken_.pop_back();
    ++candidates_[i].n;
  }

  const std::vector<int64_t>& order_;
  std::vector<int64_t>& left_;
  Packing& packing_;
  std::vector<Candidate> candidates_;
  std::vector<int64_t> taken_;
  std::vector<int64_t> best_;
  int64_t least_rest_ = 0;
  int64_t enough_ = 0;
  int64_t steps_ = 0;
};

// Returns the `count` largest devices, the smallest of them first.
std::vector<int64_t> LargestDevices(const Packing& packing, int64_t count) {
  std::vector<int64_t> devices(Index(packing.n_devices()));
  std::iota(devices.begin(), devices.end(), int64_t{0});
  std::stable_sort(devices.begin(), devices.end(), [&](int64_t a, int64_t b) {
    return packing.Free(a) > packing.Free(b);
  });
  devices.resize(Index(count));
  std::sort(devices.begin(), devices.end(), [&](int64_t a, int64_t b) {
    return std::make_pair(packing.Free(a), a) <
           std::make_pair(packing.Free(b), b);
  });
  return devices;
}

// Fills `devices` one after the other.
void FillDevices(const std::vector<int64_t>& devices,
                 const std::vector<int64_t>& order, std::vector<int64_t> want,
                 Packing& packing) {
  DeviceFiller filler(order, want, packing);
  for (int64_t device : devices) {
    if (packing.IsStopped()) return;
    filler.Fill(device);
  }
}

// How a packing is built up.
enum class Method { kByDevice, kLargestDevice, kSmallestDevice };

void FillBy(Method method, const std::vector<int64_t>& order,
            const std::vector<int64_t>& want, Packing& packing) {
  if (method == Method::kByDevice) {
    // Small devices come first, so that small replicas are not used up on large
    // ones.
    FillDevices(LargestDevices(packing, packing.n_devices()), order, want,
                packing);
  } else {
    Fill(order, want,
         method == Method::kLargestDevice ? Opening::kLargest
                                          : Opening::kSmallest,
         packing);
  }
}

// Models that some device can hold, the largest first; equal ones keep their
// order.
std::vector<int64_t> LargestFirst(const Packing& packing) {
  std::vector<int64_t> order;
  for (int64_t m = 0; m < packing.n_models(); ++m) {
    if (packing.n_placeable(m) > 0) order.push_back(m);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return packing.LeastBytes(a) > packing.LeastBytes(b);
  });
  return order;
}

std::vector<int64_t> Missing(const Packing& packing) {
  std::vector<int64_t> want;
  for (int64_t m = 0; m < packing.n_models(); ++m) {
    want.push_back(packing.n_missing(m));
  }
  return want;
}

// The number of replicas of each model of `order` among the `count` smallest.
std::vector<int64_t> Smallest(const std::vector<int64_t>& order, int64_t count,
                              const Packing& packing) {
  std::vector<int64_t> want(Index(packing.n_models()));
  for (auto model = order.rbegin(); model != order.rend(); ++model) {
    const int64_t n = std::min(count, packing.n_missing(*model));
    want[Index(*model)] = n;
    count -= n;
  }
  return want;
}

// Fills one level of priority after the other: first the largest number of the
// level's smallest replicas that fit together, then whatever else finds a
// place.
Packing FillByLevels(const std::vector<int64_t>& all, Method method,
                     Packing packing) {
  for (int64_t level = 0; level < packing.n_levels(); ++level) {
    std::vector<int64_t> order;
    int64_t n_replicas = 0;
    for (int64_t model : all) {
      if (packing.LevelOf(model) != level) continue;
      order.push_back(model);
      n_replicas += packing.n_missing(model);
    }
    Packing best = packing;
    int64_t low = 0;
    int64_t high = n_replicas + 1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      Packing trial = packing;
      const std::vector<int64_t> want = Smallest(order, middle, trial);
      FillBy(method, order, want, trial);
      const PackingScore score = trial.Score();
      const bool all_placed = score.placed[Index(level)] == middle;
      (all_placed ? low : high) = middle;
      if (score > best.Score()) best = std::move(trial);
    }
    packing = std::move(best);
    std::reverse(order.begin(), order.end());
    Fill(order, Missing(packing), Opening::kSmallest, packing);
  }
  return packing;
}

// Packs the replicas of `packing` into `again`, which is empty, on the fewest
// of the largest devices that suffice. Returns false if no number suffices.
bool RepackOnFewer(const std::vector<int64_t>& order, const Packing& packing,
                   Packing& again) {
  std::vector<int64_t> placed;
  for (int64_t m = 0; m < packing.n_models(); ++m) {
    placed.push_back(packing.n_placed(m));
  }
  const Packing empty = again;
  bool found = false;
  int64_t low = 0;
  int64_t high = packing.n_used();
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    Packing trial = empty;
    FillDevices(LargestDevices(empty, middle), order, placed, trial);
    if (trial.Score().placed == packing.Score().placed) {
      high = middle;
      again = std::move(trial);
      found = true;
    } else {
      low = middle;
    }
  }
  return found;
}

}  // namespace

void AddWhatFits(Packing& packing) {
  Fill(LargestFirst(packing), Missing(packing), Opening::kSmallest, packing);
}

Packing PackByHeuristics(const PlacementProblem& problem,
                         const StopCheck& stop) {
  const Packing empty(problem, stop);
  const std::vector<int64_t> order = LargestFirst(empty);
  Packing best = empty;
  const auto keep_better = [&best](Packing packing) {
    ImprovePacking(packing);
    if (packing.Score() > best.Score()) best = std::move(packing);
  };
  for (const Method method :
       {Method::kByDevice, Method::kLargestDevice, Method::kSmallestDevice}) {
    Packing packing = empty;
    FillBy(method, order, Missing(empty), packing);
    const std::vector<int64_t> missing = Missing(packing);
    const bool all_placed = std::all_of(missing.begin(), missing.end(),
                                        [](int64_t n) { return n == 0; });
    keep_better(all_placed ? std::move(packing)
                           : FillByLevels(order, method, empty));
  }
  Packing again = empty;
  if (RepackOnFewer(order, best, again)) keep_better(std::move(again));
  return best;
}

}  // namespace plimsoll::planner
