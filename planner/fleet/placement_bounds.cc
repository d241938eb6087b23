#include "planner/fleet/placement_bounds.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/checked_math.h"

namespace plimsoll::planner {
namespace {

// Shares are fixed-point numbers. They are rounded down, so that bounds stay
// bounds.
constexpr int64_t kOneShare = int64_t{1} << 20;
constexpr int64_t kOnePrice = int64_t{1} << 12;
constexpr int64_t kMaxPrice = kOnePrice << 10;
// No sum of prices or costs overflows within the limits of a problem.
static_assert(kMaxPrice <= std::numeric_limits<int64_t>::max() /
                               PlacementProblem::kMaxReplicas / kOneShare / 2);

// Devices form about this many groups, each counted as large as its largest
// device. Fewer groups make the bound faster and a little weaker.
constexpr int64_t kMaxGroups = 128;
constexpr int64_t kRounds = 48;

// Marks a replica that cannot run on a group's devices.
constexpr int64_t kNoShare = -1;

struct Group {
  int64_t device_class;
  int64_t bytes;  // bytes of the group's largest device
  int64_t n_devices;
};

// How a replica's bytes become its share of a device. With n = 0 and m = 0 the
// share is the volume. With m > 0, nearly the whole device counts as whole, and
// less than one m-th as nothing. With n > 0, shares go in steps of one n-th.
struct Measure {
  int64_t m;
  int64_t n;
};
constexpr std::array<Measure, 7> kMeasures = {
    {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {3, 0}, {4, 0}, {6, 0}}};

std::vector<Group> GroupDevices(const PlacementProblem& problem) {
  std::vector<std::pair<int64_t, int64_t>> devices;  // class, -bytes
  for (const PlacementDevice& device : problem.devices) {
    devices.emplace_back(device.device_class, -device.available_bytes);
  }
  std::sort(devices.begin(), devices.end());
  int64_t n_distinct = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (i == 0 || devices[i] != devices[i - 1]) ++n_distinct;
  }
  const int64_t least =
      n_distinct <= kMaxGroups
          ? 1
          : CeilDiv(static_cast<int64_t>(devices.size()), kMaxGroups);
  std::vector<Group> groups;
  for (const auto& [device_class, negative_bytes] : devices) {
    if (groups.empty() || groups.back().device_class != device_class ||
        (groups.back().bytes != -negative_bytes &&
         groups.back().n_devices >= least)) {
      groups.push_back({device_class, -negative_bytes, 0});
    }
    ++groups.back().n_devices;
  }
  return groups;
}

// bytes / capacity in kOneShare-ths, rounded down; 0 < bytes <= capacity.
int64_t VolumeShare(int64_t bytes, int64_t capacity) {
  // kMaxBytes times kOneShare would overflow.
  constexpr int64_t kUnit = 64;
  static_assert(PlacementProblem::kMaxBytes / kUnit <=
                std::numeric_limits<int64_t>::max() / kOneShare);
  return bytes / kUnit * kOneShare / CeilDiv(capacity, kUnit);
}

int64_t Share(const Measure& measure, int64_t bytes, int64_t capacity) {
  const int64_t volume = VolumeShare(bytes, capacity);
  if (measure.m > 0) {
    if (measure.m * bytes > (measure.m - 1) * capacity) return kOneShare;
    return measure.m * bytes < capacity ? 0 : volume;
  }
  if (measure.n > 0) {
    const int64_t scaled = (measure.n + 1) * bytes;
    if (scaled % capacity == 0) return volume;
    return scaled / capacity * kOneShare / measure.n;
  }
  return volume;
}

// The problem in one measure: the shares of the groups' devices that replicas
// take.
class Relaxation {
 public:
  Relaxation(const PlacementProblem& problem, const std::vector<Group>& groups,
             const std::vector<int64_t>& counts, const Measure& measure)
      : groups_(groups),
        counts_(counts),
        spread_(problem.max_replicas_per_device.value_or(
            PlacementProblem::kMaxReplicas)) {
    for (const PlacementModel& model : problem.models) {
      for (const Group& group : groups) {
        const auto& bytes =
            model.bytes[static_cast<size_t>(group.device_class)];
        const bool fits = bytes && *bytes <= group.bytes;
        shares_.push_back(fits ? Share(measure, *bytes, group.bytes)
                               : kNoShare);
      }
    }
  }

  // The cheapest assignment of the replicas at these prices of a whole device,
  // each in kOnePrice-ths: leaves out what would cost more than `gain` (in
  // kOnePrice * kOneShare-ths). Returns the sum of cost - gain over the
  // replicas assigned, and fills in each group's load in kOneShare-ths.
  int64_t Assign(const std::vector<int64_t>& prices, int64_t gain,
                 std::vector<int64_t>& loads) const {
    const size_t n_groups = groups_.size();
    loads.assign(n_groups, 0);
    int64_t sum = 0;
    std::vector<bool> taken(n_groups);
    for (size_t m = 0; m < counts_.size(); ++m) {
      int64_t left = counts_[m];
      taken.assign(n_groups, false);
      while (left > 0) {
        size_t best = n_groups;
        int64_t best_cost = gain;
        for (size_t g = 0; g < n_groups; ++g) {
          const int64_t share = shares_[m * n_groups + g];
          if (share == kNoShare || taken[g]) continue;
          if (share * prices[g] < best_cost) {
            best = g;
            best_cost = share * prices[g];
          }
        }
        if (best == n_groups) break;
        const int64_t room = spread_ >= PlacementProblem::kMaxReplicas
                                 ? left
                                 : spread_ * groups_[best].n_devices;
        const int64_t n = std::min(left, room);
        taken[best] = true;
        left -= n;
        sum += n * (best_cost - gain);
        loads[best] += n * shares_[m * n_groups + best];
      }
    }
    return sum;
  }

  // The largest value over the rounds of
  //   Assign(prices, gain) - sum of (price - floor) * devices,
  // scaled by kOnePrice * kOneShare: prices rise where load exceeds devices.
  int64_t BestDual(std::vector<int64_t> prices, int64_t floor, int64_t gain,
                   StopCheck stop) const {
    std::vector<int64_t> loads;
    int64_t best = std::numeric_limits<int64_t>::min();
    for (int64_t round = 0; round < kRounds; ++round) {
      if (round > 0 && !stop().ok()) break;
      int64_t value = Assign(prices, gain, loads);
      for (size_t g = 0; g < groups_.size(); ++g) {
        const int64_t n = groups_[g].n_devices;
        value -= (prices[g] - floor) * n * kOneShare;
        // A price changes by at most a half, and less from round to round.
        const int64_t excess =
            std::clamp((loads[g] / n - kOneShare) / (kOneShare / 1'024),
                       int64_t{-512}, int64_t{512});
        const int64_t step = prices[g] * excess / 1'024 * 8 / (8 + round);
        prices[g] = std::clamp(prices[g] + step, std::max<int64_t>(floor, 1),
                               kMaxPrice);
      }
      best = std::max(best, value);
    }
    return best;
  }

 private:
  const std::vector<Group>& groups_;
  const std::vector<int64_t>& counts_;
  int64_t spread_;
  std::vector<int64_t> shares_;  // [n_models, n_groups]
};

// Bytes of a replica on the class where it needs least; 0 if it runs nowhere.
int64_t LeastBytes(const PlacementModel& model) {
  int64_t least = 0;
  for (const auto& bytes : model.bytes) {
    if (bytes && (least == 0 || *bytes < least)) least = *bytes;
  }
  return least;
}

// Prices in proportion to the groups' bytes; `unit_bytes` cost one.
std::vector<int64_t> PricesByVolume(const std::vector<Group>& groups,
                                    int64_t unit_bytes, int64_t floor) {
  std::vector<int64_t> prices;
  for (const Group& group : groups) {
    static_assert(PlacementProblem::kMaxBytes <=
                  std::numeric_limits<int64_t>::max() / kOnePrice);
    prices.push_back(std::clamp(group.bytes * kOnePrice / unit_bytes,
                                std::max<int64_t>(floor, 1), kMaxPrice));
  }
  return prices;
}

}  // namespace

int64_t MaxPlacedBound(const PlacementProblem& problem,
                       const std::vector<int64_t>& counts, StopCheck stop) {
  const std::vector<Group> groups = GroupDevices(problem);
  int64_t room = 0;
  for (const Group& group : groups) room += group.bytes * group.n_devices;
  // By volume alone, the smallest replicas are placed until the room is used
  // up. The price of a device is then the number of the last replicas that it
  // could hold.
  std::vector<std::pair<int64_t, int64_t>> sizes;  // bytes, replicas
  for (size_t m = 0; m < counts.size(); ++m) {
    if (counts[m] > 0) {
      sizes.emplace_back(LeastBytes(problem.models[m]), counts[m]);
    }
  }
  std::sort(sizes.begin(), sizes.end());
  int64_t bound = 0;
  int64_t last_bytes = 1;
  for (const auto& [bytes, count] : sizes) {
    bound += count;
    if (room > 0) last_bytes = bytes;
    room -= bytes * count;
  }
  const std::vector<int64_t> prices = PricesByVolume(groups, last_bytes, 0);
  for (const Measure& measure : kMeasures) {
    const Relaxation relaxation(problem, groups, counts, measure);
    const int64_t dual =
        relaxation.BestDual(prices, 0, kOnePrice * kOneShare, stop);
    // -dual bounds the number placed from above.
    bound = std::min(bound, -dual / (kOnePrice * kOneShare));
  }
  return bound;
}

int64_t MinDevicesBound(const PlacementProblem& problem,
                        const std::vector<int64_t>& counts, StopCheck stop) {
  std::vector<Group> groups = GroupDevices(problem);
  int64_t n_replicas = 0;
  int64_t bytes = 0;
  for (size_t m = 0; m < counts.size(); ++m) {
    n_replicas += counts[m];
    bytes += counts[m] * LeastBytes(problem.models[m]);
  }
  if (n_replicas == 0) return 0;
  // By volume alone, the largest devices are used until all replicas have room.
  // A larger device is worth more than one like the last.
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  int64_t last_bytes = 1;
  for (const Group& group : groups) {
    if (bytes <= 0) break;
    last_bytes = std::max<int64_t>(group.bytes, 1);
    bytes -= group.bytes * group.n_devices;
  }
  const std::vector<int64_t> prices =
      PricesByVolume(groups, last_bytes, kOnePrice);
  // The gain is more than any replica can cost, so that all are assigned; what
  // was gained is added back.
  constexpr int64_t kGain = (kMaxPrice + 1) * kOneShare;
  int64_t bound = 1;
  for (const Measure& measure : kMeasures) {
    const Relaxation relaxation(problem, groups, counts, measure);
    const int64_t dual = relaxation.BestDual(prices, kOnePrice, kGain, stop) +
                         kGain * n_replicas;
    if (dual > 0) {
      bound = std::max(bound, CeilDiv(dual, kOnePrice * kOneShare));
    }
  }
  return bound;
}

}  // namespace plimsoll::planner
