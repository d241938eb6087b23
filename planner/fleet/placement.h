// Places replicas of many models on many devices, with a certificate that
// explains why a replica could not be placed.
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

// A model and the wanted number of its replicas.
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
  // Limits; each has a test at it and one past it. Within them no sum of bytes
  // overflows int64.
  static constexpr int64_t kMaxModels = 1'024;
  static constexpr int64_t kMaxDevices = 4'096;
  static constexpr int64_t kMaxClasses = 64;
  static constexpr int64_t kMaxReplicas = 16'384;  // all models together
  static constexpr int64_t kMaxBytes = int64_t{1} << 48;

  int64_t n_classes = 1;
  std::vector<PlacementModel> models;
  std::vector<PlacementDevice> devices;
  // A device holds at most this many replicas of one model; absent: any number.
  std::optional<int64_t> max_replicas_per_device;
};

// Why replicas of a model are not placed. Every device counts in exactly one of
// the four numbers n_cannot_run to n_full.
struct UnplacedModel {
  int64_t model;           // index into PlacementProblem::models
  int64_t n_replicas;      // not placed
  int64_t n_cannot_run;    // devices whose class cannot run the model
  int64_t n_spread_limit;  // devices at the limit of replicas of the model
  int64_t n_too_small;     // devices that are too small even if empty
  int64_t n_full;          // devices with too little free memory
  // The device of the last two kinds that lacks the fewest bytes, or -1.
  int64_t closest_device;
  int64_t closest_free_bytes;
  int64_t needed_bytes;   // one replica's bytes on that device
  int64_t missing_bytes;  // needed_bytes - closest_free_bytes
  std::string reason;     // the numbers above in one sentence
};

struct Placement {
  // For each model, the devices of its placed replicas, in the order of ids.
  std::vector<std::vector<int64_t>> devices_of;
  std::vector<int64_t> used_bytes;      // by device
  std::vector<UnplacedModel> unplaced;  // in the order of models
  int64_t n_wanted;
  int64_t n_placed;
  int64_t n_devices_used;
  // No assignment places more replicas, with any priorities.
  int64_t max_placed_bound;
  // No assignment with the same number of replicas of each model uses fewer
  // devices.
  int64_t min_devices_bound;
  // True if it is proven that no assignment places more replicas by priority,
  // or as many on fewer devices.
  bool is_optimal;
  int64_t wanted_bytes;     // all replicas, each where it needs least bytes
  int64_t available_bytes;  // all devices together
};

// Checks a problem. Errors: kInvalidArgument naming a value that is out of
// range, repeated or invalid.
absl::Status ValidatePlacement(const PlacementProblem& problem);

// Assigns replicas to devices: as many as it can of the highest priority, then
// of the next, and so on, on as few devices as it can. Small problems are
// searched completely, larger ones are solved by best fit and local search. The
// bounds limit the distance of the result from the optimum.
//
// Pure and deterministic: the order of models and devices does not matter, and
// name and id decide between equal choices.
// Errors: those of ValidatePlacement; those of `stop`, which is called for each
// step of the search.
absl::StatusOr<Placement> PlaceModels(const PlacementProblem& problem,
                                      StopCheck stop = NeverStop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_H_
