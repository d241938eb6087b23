// Many models on many devices: which replica goes where, and a certificate of
// why one could not be placed.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"

namespace plimsoll::planner {

// A model of which some replicas are wanted.
struct PlacementModel {
  std::string name;  // unique
  int64_t n_replicas = 1;
  int64_t priority = 0;  // a larger one goes first
  // Bytes of one replica, by class of device; absent: it cannot run there.
  std::vector<std::optional<int64_t>> bytes;  // [n_classes]
};

struct PlacementDevice {
  std::string id;  // unique
  int64_t device_class = 0;
  int64_t available_bytes = 0;
};

struct PlacementProblem {
  // Limits; each has a test at it and one past it. No sum of bytes within them
  // overflows int64.
  static constexpr int64_t kMaxModels = 1'024;
  static constexpr int64_t kMaxDevices = 4'096;
  static constexpr int64_t kMaxClasses = 64;
  static constexpr int64_t kMaxReplicas = 16'384;  // of all models
  static constexpr int64_t kMaxBytes = int64_t{1} << 48;

  int64_t n_classes = 1;
  std::vector<PlacementModel> models;
  std::vector<PlacementDevice> devices;
  // Replicas of one model on one device at most; absent: any number.
  std::optional<int64_t> max_replicas_per_device;
};

// Why replicas of a model are not placed. Every device is counted in exactly
// one of the four numbers.
struct UnplacedModel {
  int64_t model;           // index into PlacementProblem::models
  int64_t n_replicas;      // that are not placed
  int64_t n_cannot_run;    // devices whose class cannot run the model
  int64_t n_spread_limit;  // that hold as many of it as one may
  int64_t n_too_small;     // that would not hold it if they were empty
  int64_t n_full;          // that have too little left beside what they hold
  // The device of the last two kinds that comes closest, or -1.
  int64_t closest_device;
  int64_t closest_free_bytes;
  int64_t needed_bytes;   // of one replica there
  int64_t missing_bytes;  // needed_bytes - closest_free_bytes
  std::string reason;     // the same in one sentence
};

struct Placement {
  // By model: the devices of its placed replicas, in the order of device ids.
  std::vector<std::vector<int64_t>> devices_of;
  std::vector<int64_t> used_bytes;      // by device
  std::vector<UnplacedModel> unplaced;  // in the order of models
  int64_t n_wanted;
  int64_t n_placed;
  int64_t n_devices_used;
  // No assignment, whatever the priorities, places more replicas.
  int64_t max_placed_bound;
  // No assignment of as many replicas of each model uses fewer devices.
  int64_t min_devices_bound;
  // Proven: none places more replicas by priority, nor as many on fewer
  // devices.
  bool is_optimal;
  int64_t wanted_bytes;     // of all replicas, each where it needs least
  int64_t available_bytes;  // of all devices
};

// Errors: kInvalidArgument naming what is out of its limits, twice there or
// makes no sense.
absl::Status ValidatePlacement(const PlacementProblem& problem);

// Assigns replicas to devices: as many as it can of the highest priority, then
// of the next, and so on, on as few devices as it can. Small problems are
// searched through, larger ones solved by best fit and local search; the bounds
// say how far from the best the result can be at most.
//
// Pure and deterministic: the order of models and devices plays no part, equal
// choices are settled by name and id.
// Errors: those of ValidatePlacement; what `stop` says, which is asked for each
// step of the search.
absl::StatusOr<Placement> PlaceModels(const PlacementProblem& problem,
                                      StopCheck stop = NeverStop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_H_
