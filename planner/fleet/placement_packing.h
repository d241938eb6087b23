// The load of each device during the search for a placement.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_PACKING_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_PACKING_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/stop_check.h"
#include "planner/fleet/placement.h"

namespace plimsoll::planner {

// Converts an index of this file's vectors to size_t.
inline size_t Index(int64_t index) { return static_cast<size_t>(index); }

// The score of a packing; larger is better.
struct PackingScore {
  std::vector<int64_t> placed;  // replicas by level of priority, highest first
  int64_t n_unused = 0;         // devices that hold nothing

  auto operator<=>(const PackingScore&) const = default;
};

class Packing {
 public:
  // A packing in which nothing is placed yet. Requires a valid problem. `stop`
  // must outlive it and its copies.
  Packing(const PlacementProblem& problem, const StopCheck& stop);

  // True if `stop` has an error, so that the result need not be good.
  bool IsStopped() const { return !(*stop_)().ok(); }

  int64_t n_models() const { return static_cast<int64_t>(placed_.size()); }
  int64_t n_devices() const { return static_cast<int64_t>(free_.size()); }

  // Bytes of one replica of `model` on `device`, or kCannotRun.
  static constexpr int64_t kCannotRun = -1;
  int64_t BytesOn(int64_t model, int64_t device) const {
    return bytes_[Index(model * n_classes_ + class_[Index(device)])];
  }
  // The least of these over all devices, or kCannotRun.
  int64_t LeastBytes(int64_t model) const { return least_bytes_[Index(model)]; }
  // The level of the model's priority; 0 is the highest.
  int64_t LevelOf(int64_t model) const { return level_[Index(model)]; }
  int64_t n_levels() const { return n_levels_; }

  int64_t Free(int64_t device) const { return free_[Index(device)]; }
  bool IsUsed(int64_t device) const { return !Residents(device).empty(); }
  // Models on `device`; a model is listed once for each of its replicas.
  const std::vector<int64_t>& Residents(int64_t device) const {
    return residents_[Index(device)];
  }
  int64_t CountOn(int64_t model, int64_t device) const;
  // Replicas of `model` that the spread rule still allows on `device`.
  int64_t SpreadLeft(int64_t model, int64_t device) const {
    return spread_ - CountOn(model, device);
  }
  bool CanHold(int64_t model, int64_t device) const;

  int64_t n_placed(int64_t model) const { return placed_[Index(model)]; }
  // Replicas that would find a place if the model were alone, and how many of
  // them have no place yet.
  int64_t n_placeable(int64_t model) const { return placeable_[Index(model)]; }
  int64_t n_missing(int64_t model) const {
    return n_placeable(model) - n_placed(model);
  }
  int64_t n_used() const { return n_used_; }
  PackingScore Score() const;

  // Add requires CanHold(model, device); Remove requires a replica of `model`.
  void Add(int64_t model, int64_t device);
  void Remove(int64_t model, int64_t device);

 private:
  const StopCheck* stop_;
  int64_t n_classes_;
  int64_t spread_;
  std::vector<int64_t> bytes_;  // [n_models, n_classes]
  std::vector<int64_t> class_;  // [n_devices]
  std::vector<int64_t> least_bytes_;
  std::vector<int64_t> placeable_;
  std::vector<int64_t> level_;
  int64_t n_levels_ = 0;
  std::vector<int64_t> free_;
  std::vector<std::vector<int64_t>> residents_;
  std::vector<int64_t> placed_;
  int64_t n_used_ = 0;
};

// Which empty device a replica takes if no used one can hold it.
enum class Opening { kLargest, kSmallest };

// The used device that `model` fills most closely, else an empty one; never
// `except`. Returns -1 if none can hold it. Among equals it is the first.
int64_t BestFit(const Packing& packing, int64_t model, Opening opening,
                int64_t except = -1);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_PACKING_H_
