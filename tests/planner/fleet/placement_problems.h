// Random placement problems: small ones to be searched through, and fleets.
#ifndef PLIMSOLL_TESTS_PLANNER_FLEET_PLACEMENT_PROBLEMS_H_
#define PLIMSOLL_TESTS_PLANNER_FLEET_PLACEMENT_PROBLEMS_H_

#include <array>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"
#include "planner/fleet/placement.h"

namespace plimsoll::planner {

// A random number from `min` to `max`, both included.
inline int64_t Between(std::mt19937_64& random, int64_t min, int64_t max) {
  return min +
         static_cast<int64_t>(random() % static_cast<uint64_t>(max - min + 1));
}

// At most `max_devices` devices of 1 to 3 classes and `max_replicas` replicas
// of models that are about as large as a device, or a third of it.
inline PlacementProblem SmallProblem(std::mt19937_64& random,
                                     int64_t max_devices,
                                     int64_t max_replicas) {
  PlacementProblem problem;
  problem.n_classes = Between(random, 1, 3);
  const int64_t capacity = Between(random, 1, 30);
  const int64_t n_devices = Between(random, 1, max_devices);
  for (int64_t d = 0; d < n_devices; ++d) {
    problem.devices.push_back(
        {absl::StrCat("d", d), Between(random, 0, problem.n_classes - 1),
         random() % 3 == 0 ? Between(random, 0, 2 * capacity) : capacity});
  }
  int64_t left = Between(random, 1, max_replicas);
  const int64_t n_priorities = Between(random, 1, 3);
  const int64_t largest = random() % 2 == 0 ? capacity + 2 : capacity / 2 + 1;
  while (left > 0) {
    PlacementModel model;
    model.name = absl::StrCat("m", problem.models.size());
    model.n_replicas = Between(random, 1, left);
    model.priority = Between(random, 1, n_priorities);
    const int64_t bytes = Between(random, 1, largest);
    for (int64_t c = 0; c < problem.n_classes; ++c) {
      model.bytes.push_back(bytes + Between(random, 0, 2));
      if (random() % 8 == 0) model.bytes.back().reset();
    }
    left -= model.n_replicas;
    problem.models.push_back(model);
  }
  if (random() % 3 == 0)
    problem.max_replicas_per_device = Between(random, 1, 2);
  return problem;
}

// What a fleet is made of: devices of five sizes, models from a fraction of the
// smallest to most of the largest.
struct FleetNumbers {
  int64_t n_devices = 1'000;
  int64_t n_models = 200;
  // The models' bytes in percent of the devices'.
  int64_t load_percent = 80;
  // Whether devices have other things on them, each of another size.
  bool is_ragged = false;
  // The models' sizes in MiB.
  int64_t min_mib = 500;
  int64_t max_mib = 60'000;
};

inline PlacementProblem Fleet(std::mt19937_64& random,
                              const FleetNumbers& numbers) {
  constexpr int64_t kMiB = 1 << 20;
  constexpr std::array<int64_t, 5> kMib = {12'282, 24'564, 46'068, 81'559,
                                           143'771};
  PlacementProblem problem;
  problem.n_classes = static_cast<int64_t>(kMib.size());
  int64_t available = 0;
  for (int64_t d = 0; d < numbers.n_devices; ++d) {
    const int64_t c = Between(random, 0, problem.n_classes - 1);
    int64_t bytes = kMib[static_cast<size_t>(c)] * kMiB;
    if (numbers.is_ragged) bytes -= Between(random, 0, bytes / 2);
    problem.devices.push_back({absl::StrCat("d", d), c, bytes});
    available += bytes;
  }
  for (int64_t m = 0; m < numbers.n_models; ++m) {
    PlacementModel model;
    model.name = absl::StrCat("m", m);
    const int64_t bytes =
        Between(random, numbers.min_mib, numbers.max_mib) * kMiB +
        Between(random, 0, kMiB);
    // Classes differ by what their runtimes take.
    for (int64_t c = 0; c < problem.n_classes; ++c) {
      model.bytes.push_back(bytes + c * 100 * kMiB);
    }
    problem.models.push_back(model);
  }
  // Replicas, one model after the other, until the fleet is so full.
  int64_t wanted = 0;
  for (const PlacementModel& model : problem.models) wanted += *model.bytes[0];
  for (size_t m = 0; wanted < available / 100 * numbers.load_percent;
       m = (m + 1) % problem.models.size()) {
    ++problem.models[m].n_replicas;
    wanted += *problem.models[m].bytes[0];
  }
  return problem;
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_FLEET_PLACEMENT_PROBLEMS_H_
