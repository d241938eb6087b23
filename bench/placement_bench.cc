// How fast are models placed on a fleet, and how far from the bound? 200 models
// on 1,000 devices of five kinds, at several loads in percent of the fleet's
// memory. Counters: replicas placed and devices used, each with its bound.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "planner/fleet/placement.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kMib = 1 << 20;
constexpr int64_t kModels = 200;
constexpr int64_t kDevices = 1'000;
// GPUs as their driver reports them.
constexpr std::array<int64_t, 5> kDeviceMib = {12'282, 24'564, 46'068, 81'559,
                                               143'771};

int64_t Between(std::mt19937_64& random, int64_t min, int64_t max) {
  return min +
         static_cast<int64_t>(random() % static_cast<uint64_t>(max - min + 1));
}

PlacementProblem Fleet(int64_t load_percent) {
  std::mt19937_64 random(1);
  PlacementProblem problem;
  problem.n_classes = static_cast<int64_t>(kDeviceMib.size());
  int64_t available = 0;
  for (int64_t d = 0; d < kDevices; ++d) {
    const int64_t c = Between(random, 0, problem.n_classes - 1);
    const int64_t bytes = kDeviceMib[static_cast<size_t>(c)] * kMib;
    problem.devices.push_back({absl::StrCat("d", d), c, bytes});
    available += bytes;
  }
  int64_t wanted = 0;
  for (int64_t m = 0; m < kModels; ++m) {
    const int64_t bytes = Between(random, 500 * kMib, 60'000 * kMib);
    PlacementModel model{absl::StrCat("m", m), 1, 0, {}};
    // Kinds differ by what their runtimes take.
    for (int64_t c = 0; c < problem.n_classes; ++c) {
      model.bytes.emplace_back(bytes + c * 100 * kMib);
    }
    problem.models.push_back(std::move(model));
    wanted += bytes;
  }
  for (size_t m = 0; wanted < available / 100 * load_percent;
       m = (m + 1) % problem.models.size()) {
    ++problem.models[m].n_replicas;
    wanted += *problem.models[m].bytes[0];
  }
  return problem;
}

void Place(benchmark::State& state) {
  PlacementProblem problem = Fleet(state.range(0));
  if (state.range(1) > 0) problem.max_replicas_per_device = state.range(1);
  Placement placement;
  for (auto step : state) {
    auto result = PlaceModels(problem);
    if (!result.ok()) std::abort();
    placement = *std::move(result);
  }
  const auto count = [&state](const char* name, int64_t value) {
    state.counters[name] = static_cast<double>(value);
  };
  count("wanted", placement.n_wanted);
  count("placed", placement.n_placed);
  count("placed_bound", placement.max_placed_bound);
  count("devices", placement.n_devices_used);
  count("devices_bound", placement.min_devices_bound);
}
BENCHMARK(Place)
    ->ArgNames({"load_percent", "max_per_device"})
    ->ArgsProduct({{50, 80, 97, 150}, {0, 2}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::planner

BENCHMARK_MAIN();
