#include "planner/fleet/placement_packing.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace plimsoll::planner {

Packing::Packing(const PlacementProblem& problem, const StopCheck& stop)
    : stop_(&stop),
      n_classes_(problem.n_classes),
      spread_(problem.max_replicas_per_device.value_or(
          PlacementProblem::kMaxReplicas)),
      residents_(problem.devices.size()),
      placed_(problem.models.size()) {
  std::vector<int64_t> priorities;
  for (const PlacementModel& model : problem.models) {
    for (const auto& bytes : model.bytes) {
      bytes_.push_back(bytes.value_or(kCannotRun));
    }
    priorities.push_back(model.priority);
  }
  std::sort(priorities.begin(), priorities.end(), std::greater<>());
  priorities.erase(std::unique(priorities.begin(), priorities.end()),
                   priorities.end());
  n_levels_ = static_cast<int64_t>(priorities.size());
  for (const PlacementDevice& device : problem.devices) {
    free_.push_back(device.available_bytes);
    class_.push_back(device.device_class);
  }
  for (int64_t m = 0; m < n_models(); ++m) {
    const PlacementModel& model = problem.models[Index(m)];
    level_.push_back(std::lower_bound(priorities.begin(), priorities.end(),
                                      model.priority, std::greater<>()) -
                     priorities.begin());
    int64_t least = kCannotRun;
    int64_t placeable = 0;
    for (int64_t d = 0; d < n_devices(); ++d) {
      const int64_t bytes = BytesOn(m, d);
      if (bytes == kCannotRun) continue;
      if (least == kCannotRun || bytes < least) least = bytes;
      // The count is limited to what the model wants, so that the sum stays
      // small.
      placeable += std::min({Free(d) / bytes, spread_, model.n_replicas});
    }
    least_bytes_.push_back(least);
    placeable_.push_back(std::min(placeable, model.n_replicas));
  }
}

int64_t Packing::CountOn(int64_t model, int64_t device) const {
  const auto [first, last] = std::equal_range(Residents(device).begin(),
                                              Residents(device).end(), model);
  return last - first;
}

bool Packing::CanHold(int64_t model, int64_t device) const {
  const int64_t bytes = BytesOn(model, device);
  return bytes != kCannotRun && bytes <= Free(device) &&
         SpreadLeft(model, device) > 0;
}

PackingScore Packing::Score() const {
  PackingScore score{std::vector<int64_t>(Index(n_levels_)),
                     n_devices() - n_used_};
  for (int64_t m = 0; m < n_models(); ++m) {
    score.placed[Index(LevelOf(m))] += n_placed(m);
  }
  return score;
}

void Packing::Add(int64_t model, int64_t device) {
  std::vector<int64_t>& residents = residents_[Index(device)];
  if (residents.empty()) ++n_used_;
  // Kept sorted, so that equal residents lie side by side.
  residents.insert(std::upper_bound(residents.begin(), residents.end(), model),
                   model);
  free_[Index(device)] -= BytesOn(model, device);
  ++placed_[Index(model)];
}

void Packing::Remove(int64_t model, int64_t device) {
  std::vector<int64_t>& residents = residents_[Index(device)];
  residents.erase(std::lower_bound(residents.begin(), residents.end(), model));
  if (residents.empty()) --n_used_;
  free_[Index(device)] += BytesOn(model, device);
  --placed_[Index(model)];
}

int64_t BestFit(const Packing& packing, int64_t model, Opening opening,
                int64_t except) {
  int64_t best = -1;
  int64_t best_rest = std::numeric_limits<int64_t>::max();
  int64_t empty = -1;
  int64_t empty_rest = 0;
  for (int64_t d = 0; d < packing.n_devices(); ++d) {
    // The most expensive question comes last: most devices are no better.
    const int64_t rest = packing.Free(d) - packing.BytesOn(model, d);
    if (rest < 0 || rest >= best_rest || d == except) continue;
    const bool is_used = packing.IsUsed(d);
    const bool is_better =
        is_used || empty < 0 ||
        (opening == Opening::kLargest ? rest > empty_rest : rest < empty_rest);
    if (!is_better || !packing.CanHold(model, d)) continue;
    (is_used ? best : empty) = d;
    (is_used ? best_rest : empty_rest) = rest;
  }
  return best >= 0 ? best : empty;
}

}  // namespace plimsoll::planner
