// Placements of thousands of random fleets: the small ones against a search of
// all assignments, the large ones against their bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "planner/fleet/placement.h"
#include "tests/planner/fleet/placement_problems.h"

namespace plimsoll::planner {
namespace {

// What an assignment is worth: replicas by priority, the highest first, then
// devices left unused.
using Worth = std::vector<int64_t>;

// Tries every assignment of every replica to every device or to none. Written
// apart from the planner: no order, no bound, no symmetry.
class BruteForce {
 public:
  explicit BruteForce(const PlacementProblem& problem) : problem_(problem) {
    for (const PlacementDevice& device : problem.devices) {
      free_.push_back(device.available_bytes);
    }
    for (size_t m = 0; m < problem.models.size(); ++m) {
      replicas_.insert(replicas_.end(),
                       static_cast<size_t>(problem.models[m].n_replicas), m);
      placed_[-problem.models[m].priority] = 0;
    }
    counts_.assign(problem.models.size(),
                   std::vector<int64_t>(problem.devices.size()));
    Try(0);
  }

  const Worth& best() const { return best_; }
  int64_t most_placed() const { return most_placed_; }

 private:
  void Try(size_t r) {
    if (r == replicas_.size()) return Judge();
    const size_t m = replicas_[r];
    Try(r + 1);
    const PlacementModel& model = problem_.models[m];
    for (size_t d = 0; d < free_.size(); ++d) {
      const auto bytes =
          model.bytes[static_cast<size_t>(problem_.devices[d].device_class)];
      if (!bytes || *bytes > free_[d] ||
          counts_[m][d] >= problem_.max_replicas_per_device.value_or(1'000)) {
        continue;
      }
      free_[d] -= *bytes;
      ++counts_[m][d];
      ++placed_[-model.priority];
      Try(r + 1);
      --placed_[-model.priority];
      --counts_[m][d];
      free_[d] += *bytes;
    }
  }

  void Judge() {
    Worth worth;
    int64_t n_placed = 0;
    for (const auto& [priority, n] : placed_) {
      worth.push_back(n);
      n_placed += n;
    }
    int64_t unused = 0;
    for (size_t d = 0; d < free_.size(); ++d) {
      bool used = false;
      for (const auto& on : counts_) used |= on[d] > 0;
      unused += used ? 0 : 1;
    }
    worth.push_back(unused);
    best_ = std::max(best_, worth);
    most_placed_ = std::max(most_placed_, n_placed);
  }

  const PlacementProblem& problem_;
  std::vector<size_t> replicas_;
  std::vector<int64_t> free_;
  std::vector<std::vector<int64_t>> counts_;  // [models, devices]
  std::map<int64_t, int64_t> placed_;         // by negated priority
  Worth best_;
  int64_t most_placed_ = 0;
};

// What `placement` is worth, after checking that it keeps every rule and that
// its sums and certificates are true.
Worth Verify(const PlacementProblem& problem, const Placement& placement) {
  std::vector<int64_t> used(problem.devices.size());
  std::map<int64_t, int64_t> placed;
  int64_t n_placed = 0;
  size_t next_unplaced = 0;
  for (size_t m = 0; m < problem.models.size(); ++m) {
    const PlacementModel& model = problem.models[m];
    std::map<int64_t, int64_t> on;
    for (int64_t d : placement.devices_of[m]) {
      const auto& device = problem.devices[static_cast<size_t>(d)];
      const auto& bytes = model.bytes[static_cast<size_t>(device.device_class)];
      EXPECT_TRUE(bytes.has_value());
      used[static_cast<size_t>(d)] += bytes.value_or(0);
      EXPECT_LE(++on[d], problem.max_replicas_per_device.value_or(1 << 20));
    }
    const auto n = static_cast<int64_t>(placement.devices_of[m].size());
    EXPECT_LE(n, model.n_replicas);
    placed[-model.priority] += n;
    n_placed += n;
    if (n == model.n_replicas) continue;
    const UnplacedModel& why = placement.unplaced.at(next_unplaced++);
    EXPECT_EQ(why.model, static_cast<int64_t>(m));
    EXPECT_EQ(why.n_replicas, model.n_replicas - n);
    EXPECT_EQ(
        why.n_cannot_run + why.n_spread_limit + why.n_too_small + why.n_full,
        static_cast<int64_t>(problem.devices.size()));
    if (why.closest_device >= 0) {
      EXPECT_GT(why.missing_bytes, 0);
    }
  }
  EXPECT_EQ(next_unplaced, placement.unplaced.size());
  EXPECT_EQ(n_placed, placement.n_placed);
  EXPECT_EQ(used, placement.used_bytes);
  Worth worth;
  for (const auto& [priority, n] : placed) worth.push_back(n);
  int64_t unused = 0;
  for (size_t d = 0; d < used.size(); ++d) {
    EXPECT_LE(used[d], problem.devices[d].available_bytes);
    unused += used[d] == 0 ? 1 : 0;
  }
  worth.push_back(unused);
  EXPECT_EQ(placement.n_devices_used,
            static_cast<int64_t>(used.size()) - unused);
  EXPECT_LE(placement.n_placed, placement.max_placed_bound);
  EXPECT_GE(placement.n_devices_used, placement.min_devices_bound);
  return worth;
}

void ExpectOptimal(uint64_t seed, int n_problems, int64_t max_devices,
                   int64_t max_replicas) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < n_problems; ++i) {
    const PlacementProblem problem =
        SmallProblem(random, max_devices, max_replicas);
    const auto placement = PlaceModels(problem);
    ASSERT_TRUE(placement.ok()) << placement.status();
    ASSERT_TRUE(placement->is_optimal) << i;
    const BruteForce brute(problem);
    ASSERT_EQ(Verify(problem, *placement), brute.best()) << i;
    ASSERT_GE(placement->max_placed_bound, brute.most_placed()) << i;
    ASSERT_FALSE(::testing::Test::HasFailure()) << i;
  }
}

TEST(PlacementPropertyTest, SmallFleetsArePlacedAsWellAsBruteForceDoes) {
  ExpectOptimal(1, 8'000, 4, 6);
}

TEST(PlacementPropertyTest, SoAreSomewhatLargerOnes) {
  ExpectOptimal(2, 1'000, 3, 9);
  ExpectOptimal(3, 1'000, 6, 6);
}

TEST(PlacementPropertyTest, TheOrderOfModelsAndDevicesPlaysNoPart) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 300; ++i) {
    const PlacementProblem problem = SmallProblem(random, 8, 16);
    PlacementProblem shuffled = problem;
    std::shuffle(shuffled.models.begin(), shuffled.models.end(), random);
    std::shuffle(shuffled.devices.begin(), shuffled.devices.end(), random);
    const auto names = [](const PlacementProblem& p, const Placement& placed) {
      std::map<std::string, std::vector<std::string>> result;
      for (size_t m = 0; m < p.models.size(); ++m) {
        for (int64_t d : placed.devices_of[m]) {
          result[p.models[m].name].push_back(
              p.devices[static_cast<size_t>(d)].id);
        }
      }
      return result;
    };
    ASSERT_EQ(names(problem, *PlaceModels(problem)),
              names(shuffled, *PlaceModels(shuffled)));
  }
}

TEST(PlacementPropertyTest, MiddlingFleetsKeepEveryRule) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 40; ++i) {
    const PlacementProblem problem = SmallProblem(random, 40, 150);
    const auto placement = PlaceModels(problem);
    ASSERT_TRUE(placement.ok());
    Verify(problem, *placement);
    ASSERT_FALSE(HasFailure()) << i;
  }
}

// 1,000 devices and 200 models. Where all find a place, the devices used are
// at most a tenth above the bound; else the replicas placed a tenth below.
void ExpectWithinATenth(uint64_t seed, const FleetNumbers& numbers) {
  std::mt19937_64 random(seed);
  PlacementProblem problem = Fleet(random, numbers);
  // Every other one with a rule.
  if (seed % 2 == 0) problem.max_replicas_per_device = 2;
  const auto placement = PlaceModels(problem);
  ASSERT_TRUE(placement.ok()) << placement.status();
  Verify(problem, *placement);
  if (placement->n_placed < placement->n_wanted) {
    EXPECT_LE(10 * placement->max_placed_bound, 11 * placement->n_placed)
        << placement->n_placed << " of " << placement->n_wanted << ", bound "
        << placement->max_placed_bound;
    return;
  }
  EXPECT_LE(10 * placement->n_devices_used, 11 * placement->min_devices_bound)
      << placement->n_placed << " on " << placement->n_devices_used
      << " devices, bound " << placement->min_devices_bound;
}

TEST(PlacementScaleTest, AFleetWithRoomIsWithinATenthOfTheBound) {
  ExpectWithinATenth(1, {.load_percent = 50});
  ExpectWithinATenth(2, {.load_percent = 80});
}

TEST(PlacementScaleTest, AFullFleetIsWithinATenthOfTheBound) {
  ExpectWithinATenth(3, {.load_percent = 97});
  ExpectWithinATenth(4, {.load_percent = 150});
}

TEST(PlacementScaleTest, ARaggedFleetIsWithinATenthOfTheBound) {
  ExpectWithinATenth(5, {.load_percent = 60, .is_ragged = true});
  ExpectWithinATenth(6, {.load_percent = 95, .is_ragged = true});
}

TEST(PlacementScaleTest, LargeModelsAreWithinATenthOfTheBound) {
  ExpectWithinATenth(7,
                     {.load_percent = 60, .min_mib = 4'000, .max_mib = 24'000});
  ExpectWithinATenth(
      8, {.load_percent = 70, .min_mib = 13'000, .max_mib = 46'000});
  ExpectWithinATenth(
      9, {.load_percent = 80, .min_mib = 20'000, .max_mib = 140'000});
}

}  // namespace
}  // namespace plimsoll::planner
