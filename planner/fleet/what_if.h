// What-if grids: the numbers of many plans of one model, over contexts, slots,
// element types, chunks and devices.
#ifndef PLIMSOLL_PLANNER_FLEET_WHAT_IF_H_
#define PLIMSOLL_PLANNER_FLEET_WHAT_IF_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/stop_check.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/plan_regions.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// The axes of a grid; each has at least one value. The last axis runs fastest:
// devices, weights, kv, n_ubatch, n_slots, n_ctx.
struct WhatIfAxes {
  // Limits; each has a test at it and one past it.
  static constexpr int64_t kMaxPoints = 1'000'000;
  // Points times the model's layers: the cost of computing them.
  static constexpr int64_t kMaxLayerPoints = 128 * kMaxPoints;
  static constexpr int64_t kMaxDevices = 64;
  static constexpr int64_t kMaxTypes = 64;  // weights, and kv

  struct Device {
    DeviceProfile profile;
    int64_t budget_bytes;
  };
  struct KvType {
    DType k;
    DType v;
  };

  std::vector<Device> devices;
  // Absent: the element types of the base. A type: every matrix has it (see
  // WithWeightType).
  std::vector<std::optional<DType>> weights = {std::nullopt};
  std::vector<KvType> kv = {{DType::kF16, DType::kF16}};
  std::vector<int64_t> n_ubatch = {512};
  std::vector<int64_t> n_slots = {1};
  // Absent: the largest context that fits.
  std::vector<std::optional<int64_t>> n_ctx = {std::nullopt};
};

struct WhatIfPoint {
  int64_t index;  // in the order of the grid, from 0
  // The axes' values at this point.
  int64_t device;  // index into WhatIfAxes::devices
  std::optional<DType> weights;
  WhatIfAxes::KvType kv;
  int64_t n_ubatch;
  int64_t n_slots;
  std::optional<int64_t> wanted_ctx;
  // The plan's numbers; names and meanings are those of MemoryPlan.
  int64_t n_ctx;
  bool fits;
  int64_t budget_bytes;
  // INT64_MAX if it does not fit in 63 bits; the next two fields are then 0.
  int64_t total_bytes;
  int64_t arena_bytes;
  int64_t kv_bytes;  // kv_full, kv_window and state
  int64_t missing_bytes;
  int64_t kv_bytes_per_token;
  // False if this build cannot run the plan on the device. The bytes are
  // correct in either case.
  bool can_run;
};

// Walks a grid, a few points at a time. A caller gets at most as many points as
// it requests, and may stop at any time. Not thread-safe.
class WhatIf {
 public:
  // `base` gives every option that is no axis. Create computes everything that
  // depends on the weights only, once for each device and type.
  // Errors: kInvalidArgument naming the axis that is empty, too long or has a
  // value that is invalid for this model; the errors of Layout about the shape
  // and the profiles; kOutOfRange if the weights overflow; those of `stop`,
  // which is called for each device.
  static absl::StatusOr<WhatIf> Create(ModelShape shape,
                                       const PlanOptions& base, WhatIfAxes axes,
                                       StopCheck stop = NeverStop);

  int64_t n_points() const { return n_points_; }
  bool done() const { return next_ == n_points_; }

  // Returns the next points, at most `max_points`; none once done. Each equals
  // the result of Layout for that load, to the byte.
  // Errors: those of Layout except kOutOfRange; those of `stop`, which is
  // called for each point.
  absl::StatusOr<std::vector<WhatIfPoint>> Next(int64_t max_points,
                                                StopCheck stop = NeverStop);

  // Indices, ascending, of the visited points that are on their device's Pareto
  // frontier. A point is on it if it fits, can run, and no other such point of
  // its device is better in one of these and at least as good in the rest:
  // length of the context, number of slots, bits of a key and a value together,
  // bits of weights, total bytes. The chunk does not count: it costs time, not
  // quality. O(n log n) for n points and short axes.
  // Errors: those of `stop`, which is called repeatedly.
  absl::StatusOr<std::vector<int64_t>> Frontier(
      StopCheck stop = NeverStop) const;

 private:
  // The bytes of one weight type on one device.
  struct Weights {
    WeightBytes bytes;
    bool can_run;
  };
  // A point that fits, with the values that the frontier compares.
  struct Candidate {
    int64_t index;
    int64_t n_ctx;
    int64_t total_bytes;
  };
  // A point's place on each axis.
  struct Place {
    size_t device, weights, kv, n_ubatch, n_slots, n_ctx;
  };

  WhatIf(ModelShape shape, const PlanOptions& base, WhatIfAxes axes)
      : shape_(std::move(shape)), base_(base), axes_(std::move(axes)) {}

  absl::Status CheckAxes(StopCheck stop) const;
  absl::Status LayoutAllWeights(StopCheck stop);
  Place PlaceOf(int64_t index) const;
  absl::StatusOr<WhatIfPoint> PointAt(int64_t index) const;
  absl::Status MarkFrontierOf(const std::vector<Candidate>& candidates,
                              StopCheck stop,
                              std::vector<int64_t>& frontier) const;

  ModelShape shape_;
  PlanOptions base_;
  WhatIfAxes axes_;
  int64_t n_points_ = 0;
  int64_t next_ = 0;
  std::vector<Weights> weights_;           // [devices, weights]
  std::vector<int64_t> weight_precision_;  // [weights], bits of all matrices
  std::vector<Candidate> candidates_;      // points visited so far
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_WHAT_IF_H_
