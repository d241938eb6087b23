#include "planner/fleet/placement.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/fleet/placement_bounds.h"
#include "planner/fleet/placement_fill.h"
#include "planner/fleet/placement_packing.h"
#include "planner/fleet/placement_search.h"
#include "planner/layout/explain.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kMaxBytes = PlacementProblem::kMaxBytes;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t min,
                        int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", not ", min, " to ", max));
}

absl::Status ValidateModel(const PlacementModel& model, int64_t n_classes) {
  RETURN_IF_ERROR(CheckRange(absl::StrCat("replicas of model ", model.name),
                             model.n_replicas, 1,
                             PlacementProblem::kMaxReplicas));
  RETURN_IF_ERROR(CheckRange(
      absl::StrCat("classes with bytes of model ", model.name),
      static_cast<int64_t>(model.bytes.size()), n_classes, n_classes));
  for (const auto& bytes : model.bytes) {
    if (!bytes) continue;
    RETURN_IF_ERROR(CheckRange(absl::StrCat("bytes of model ", model.name),
                               *bytes, 1, kMaxBytes));
  }
  return absl::OkStatus();
}

// Indices of `items`, sorted by `key`.
template <typename T>
std::vector<int64_t> OrderBy(const std::vector<T>& items, std::string T::*key) {
  std::vector<int64_t> order(items.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return items[Index(a)].*key < items[Index(b)].*key;
  });
  return order;
}

std::string Reason(const PlacementProblem& problem, const UnplacedModel& u) {
  const int64_t n_devices = static_cast<int64_t>(problem.devices.size());
  std::string reason = absl::StrCat("of ", n_devices, " ",
                                    n_devices == 1 ? "device" : "devices");
  const char* separator = " ";
  const auto add = [&](int64_t n, absl::string_view what) {
    if (n == 0) return;
    absl::StrAppend(&reason, separator, n, " ", what);
    separator = ", ";
  };
  add(u.n_cannot_run, "cannot run it");
  add(u.n_spread_limit, "hold as many replicas of it as one may");
  add(u.n_too_small, "would be too small even if empty");
  add(u.n_full, "have too little left beside other models");
  if (u.closest_device < 0) return reason;
  return absl::StrCat(reason, "; ", problem.devices[Index(u.closest_device)].id,
                      " comes closest: one replica needs ",
                      WithThousands(u.needed_bytes), " bytes there, ",
                      WithThousands(u.closest_free_bytes), " are free, ",
                      WithThousands(u.missing_bytes), " are missing");
}

// Explains why `model` has fewer replicas than wanted. `problem` and `packing`
// are both in sorted order.
UnplacedModel Certify(const PlacementProblem& problem, const Packing& packing,
                      int64_t model) {
  UnplacedModel unplaced = {};
  unplaced.model = model;
  unplaced.n_replicas =
      problem.models[Index(model)].n_replicas - packing.n_placed(model);
  unplaced.closest_device = -1;
  for (int64_t d = 0; d < packing.n_devices(); ++d) {
    const int64_t bytes = packing.BytesOn(model, d);
    if (bytes == Packing::kCannotRun) {
      ++unplaced.n_cannot_run;
      continue;
    }
    if (packing.SpreadLeft(model, d) <= 0) {
      ++unplaced.n_spread_limit;
      continue;
    }
    const bool too_small = bytes > problem.devices[Index(d)].available_bytes;
    ++(too_small ? unplaced.n_too_small : unplaced.n_full);
    const int64_t missing = bytes - packing.Free(d);
    if (unplaced.closest_device < 0 || missing < unplaced.missing_bytes) {
      unplaced.closest_device = d;
      unplaced.closest_free_bytes = packing.Free(d);
      unplaced.needed_bytes = bytes;
      unplaced.missing_bytes = missing;
    }
  }
  unplaced.reason = Reason(problem, unplaced);
  return unplaced;
}

std::vector<int64_t> Placed(const Packing& packing) {
  std::vector<int64_t> counts;
  for (int64_t m = 0; m < packing.n_models(); ++m) {
    counts.push_back(packing.n_placed(m));
  }
  return counts;
}

// Solves `problem`, whose models and devices are sorted. After `stop` says so,
// it returns any valid result.
Placement Solve(const PlacementProblem& problem, const StopCheck& stop) {
  Packing packing = PackByHeuristics(problem, stop);
  std::vector<int64_t> wanted;
  for (const PlacementModel& model : problem.models) {
    wanted.push_back(model.n_replicas);
  }
  std::vector<int64_t> placeable;
  for (int64_t m = 0; m < packing.n_models(); ++m) {
    placeable.push_back(packing.n_placeable(m));
  }

  Placement result = {};
  result.min_devices_bound = MinDevicesBound(problem, Placed(packing), stop);
  result.is_optimal = Placed(packing) == placeable &&
                      packing.n_used() == result.min_devices_bound;
  if (!result.is_optimal) {
    const std::vector<int64_t> before = Placed(packing);
    result.is_optimal = SearchPlacement(problem, packing, stop);
    AddWhatFits(packing);
    if (Placed(packing) != before) {
      result.min_devices_bound =
          MinDevicesBound(problem, Placed(packing), stop);
    }
  }
  result.max_placed_bound = MaxPlacedBound(problem, placeable, stop);
  result.n_devices_used = packing.n_used();
  result.devices_of.resize(problem.models.size());
  result.used_bytes.resize(problem.devices.size());
  for (int64_t d = 0; d < packing.n_devices(); ++d) {
    for (int64_t model : packing.Residents(d)) {
      result.devices_of[Index(model)].push_back(d);
      result.used_bytes[Index(d)] += packing.BytesOn(model, d);
    }
    result.available_bytes += problem.devices[Index(d)].available_bytes;
  }
  for (int64_t m = 0; m < packing.n_models(); ++m) {
    result.n_wanted += wanted[Index(m)];
    result.n_placed += packing.n_placed(m);
    result.wanted_bytes +=
        wanted[Index(m)] * std::max<int64_t>(packing.LeastBytes(m), 0);
    if (packing.n_placed(m) < wanted[Index(m)]) {
      result.unplaced.push_back(Certify(problem, packing, m));
    }
  }
  return result;
}

}  // namespace

absl::Status ValidatePlacement(const PlacementProblem& problem) {
  RETURN_IF_ERROR(CheckRange("the number of classes", problem.n_classes, 1,
                             PlacementProblem::kMaxClasses));
  RETURN_IF_ERROR(CheckRange("the number of models",
                             static_cast<int64_t>(problem.models.size()), 1,
                             PlacementProblem::kMaxModels));
  RETURN_IF_ERROR(CheckRange("the number of devices",
                             static_cast<int64_t>(problem.devices.size()), 1,
                             PlacementProblem::kMaxDevices));
  RETURN_IF_ERROR(CheckRange("max_replicas_per_device",
                             problem.max_replicas_per_device.value_or(1), 1,
                             PlacementProblem::kMaxReplicas));
  std::set<absl::string_view> names;
  int64_t n_replicas = 0;
  for (const PlacementModel& model : problem.models) {
    RETURN_IF_ERROR(ValidateModel(model, problem.n_classes));
    if (!names.insert(model.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", model.name, " is there twice"));
    }
    n_replicas += model.n_replicas;
  }
  RETURN_IF_ERROR(CheckRange("the number of replicas", n_replicas, 1,
                             PlacementProblem::kMaxReplicas));
  std::set<absl::string_view> ids;
  for (const PlacementDevice& device : problem.devices) {
    RETURN_IF_ERROR(CheckRange(absl::StrCat("class of device ", device.id),
                               device.device_class, 0, problem.n_classes - 1));
    RETURN_IF_ERROR(
        CheckRange(absl::StrCat("available bytes of device ", device.id),
                   device.available_bytes, 0, kMaxBytes));
    if (!ids.insert(device.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device.id, " is there twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Placement> PlaceModels(const PlacementProblem& problem,
                                      StopCheck stop) {
  RETURN_IF_ERROR(ValidatePlacement(problem));
  const std::vector<int64_t> models =
      OrderBy(problem.models, &PlacementModel::name);
  const std::vector<int64_t> devices =
      OrderBy(problem.devices, &PlacementDevice::id);
  PlacementProblem sorted = {
      problem.n_classes, {}, {}, problem.max_replicas_per_device};
  for (int64_t m : models) sorted.models.push_back(problem.models[Index(m)]);
  for (int64_t d : devices) {
    sorted.devices.push_back(problem.devices[Index(d)]);
  }
  const Placement solved = Solve(sorted, stop);
  RETURN_IF_ERROR(stop());

  // The result is put back into the caller's order.
  Placement result = solved;
  for (size_t m = 0; m < models.size(); ++m) {
    std::vector<int64_t>& replicas = result.devices_of[Index(models[m])];
    replicas = solved.devices_of[m];
    for (int64_t& device : replicas) device = devices[Index(device)];
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    result.used_bytes[Index(devices[d])] = solved.used_bytes[d];
  }
  for (UnplacedModel& unplaced : result.unplaced) {
    unplaced.model = models[Index(unplaced.model)];
    if (unplaced.closest_device >= 0) {
      unplaced.closest_device = devices[Index(unplaced.closest_device)];
    }
  }
  std::sort(result.unplaced.begin(), result.unplaced.end(),
            [](const UnplacedModel& a, const UnplacedModel& b) {
              return a.model < b.model;
            });
  return result;
}

}  // namespace plimsoll::planner
