#include "planner/fleet/placement_moves.h"

#include <algorithm>
#include <vector>

namespace plimsoll::planner {
namespace {

// One phase of the search looks at this many devices. Beyond that the packing
// stays as it is.
constexpr int64_t kMaxLooks = 4'000'000;

// Moves replicas as long as its budget of looks lasts.
class LocalSearch {
 public:
  explicit LocalSearch(Packing& packing) : packing_(packing) {}

  void Run() {
    PlaceMissing();
    looks_ = 0;
    while (EmptyOneDevice()) {
    }
    // A device that was emptied may hold another replica.
    PlaceMissing();
  }

 private:
  // The best place for `model` other than `except` among devices in use.
  int64_t UsedFit(int64_t model, int64_t except) {
    looks_ += packing_.n_devices();
    const int64_t device = BestFit(packing_, model, Opening::kSmallest, except);
    return device >= 0 && packing_.IsUsed(device) ? device : -1;
  }

  void PlaceMissing() {
    std::vector<int64_t> order;
    for (int64_t m = 0; m < packing_.n_models(); ++m) {
      if (packing_.n_missing(m) > 0) order.push_back(m);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (packing_.LevelOf(a) != packing_.LevelOf(b)) {
        return packing_.LevelOf(a) < packing_.LevelOf(b);
      }
      return packing_.LeastBytes(a) < packing_.LeastBytes(b);
    });
    for (int64_t model : order) {
      while (packing_.n_missing(model) > 0 && PlaceOne(model)) {
      }
    }
  }

  // Places one replica; if necessary, it moves one resident elsewhere.
  bool PlaceOne(int64_t model) {
    if (packing_.IsStopped()) return false;
    looks_ += packing_.n_devices();
    const int64_t device = BestFit(packing_, model, Opening::kSmallest);
    if (device >= 0) {
      packing_.Add(model, device);
      return true;
    }
    for (int64_t d = 0; d < packing_.n_devices() && looks_ < kMaxLooks; ++d) {
      if (packing_.IsStopped()) return false;
      if (MakeRoom(model, d)) {
        packing_.Add(model, d);
        return true;
      }
    }
    return false;
  }

  // Moves one resident of `device` elsewhere so that it can hold `model`.
  bool MakeRoom(int64_t model, int64_t device) {
    const int64_t bytes = packing_.BytesOn(model, device);
    if (bytes == Packing::kCannotRun ||
        packing_.SpreadLeft(model, device) <= 0) {
      return false;
    }
    const std::vector<int64_t> residents = packing_.Residents(device);
    int64_t last = -1;
    for (int64_t resident : residents) {
      if (resident == last || resident == model) continue;
      last = resident;
      if (packing_.Free(device) + packing_.BytesOn(resident, device) < bytes) {
        continue;
      }
      looks_ += packing_.n_devices();
      const int64_t target =
          BestFit(packing_, resident, Opening::kSmallest, device);
      if (target < 0) continue;
      packing_.Remove(resident, device);
      packing_.Add(resident, target);
      return true;
    }
    return false;
  }

  // Empties the used device that holds least or, if that fails, one of the
  // next.
  bool EmptyOneDevice() {
    std::vector<int64_t> used;
    std::vector<int64_t> load(Index(packing_.n_devices()));
    for (int64_t d = 0; d < packing_.n_devices(); ++d) {
      if (packing_.IsUsed(d)) used.push_back(d);
      for (int64_t m : packing_.Residents(d)) {
        load[Index(d)] += packing_.BytesOn(m, d);
      }
    }
    std::stable_sort(used.begin(), used.end(), [&](int64_t a, int64_t b) {
      return load[Index(a)] < load[Index(b)];
    });
    for (int64_t device : used) {
      if (looks_ >= kMaxLooks || packing_.IsStopped()) return false;
      if (Empty(device)) return true;
    }
    return false;
  }

  struct Move {
    int64_t model;
    int64_t from;
    int64_t to;
  };

  void Apply(const Move& move, std::vector<Move>& moves) {
    packing_.Remove(move.model, move.from);
    packing_.Add(move.model, move.to);
    moves.push_back(move);
  }

  // Moves all residents of `device` to other used devices, or none.
  bool Empty(int64_t device) {
    std::vector<int64_t> residents = packing_.Residents(device);
    std::stable_sort(
        residents.begin(), residents.end(), [&](int64_t a, int64_t b) {
          return packing_.BytesOn(a, device) > packing_.BytesOn(b, device);
        });
    std::vector<Move> moves;
    for (int64_t model : residents) {
      const int64_t target = UsedFit(model, device);
      if (target >= 0) {
        Apply({model, device, target}, moves);
      } else if (!Exchange(model, device, moves)) {
        for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
          packing_.Remove(move->model, move->to);
          packing_.Add(move->model, move->from);
        }
        return false;
      }
    }
    return true;
  }

  // Moves `model` from `device` to a device where another resident makes room
  // by moving to a third used device.
  bool Exchange(int64_t model, int64_t device, std::vector<Move>& moves) {
    for (int64_t d = 0; d < packing_.n_devices(); ++d) {
      const int64_t bytes = packing_.BytesOn(model, d);
      if (looks_ >= kMaxLooks) return false;
      ++looks_;
      if (d == device || bytes == Packing::kCannotRun || !packing_.IsUsed(d) ||
          packing_.SpreadLeft(model, d) <= 0) {
        continue;
      }
      const std::vector<int64_t> residents = packing_.Residents(d);
      int64_t last = -1;
      for (int64_t resident : residents) {
        if (resident == last || resident == model) continue;
        last = resident;
        if (packing_.Free(d) + packing_.BytesOn(resident, d) < bytes) continue;
        const int64_t target = UsedFit(resident, d);
        if (target < 0 || target == device) continue;
        Apply({resident, d, target}, moves);
        Apply({model, device, d}, moves);
        return true;
      }
    }
    return false;
  }

  Packing& packing_;
  int64_t looks_ = 0;
};

}  // namespace

void ImprovePacking(Packing& packing) { LocalSearch(packing).Run(); }

}  // namespace plimsoll::planner
