// Upper bounds for a device: tokens per second from its memory bandwidth,
// sessions and context from its bytes, and the devices that are large enough.
#ifndef PLIMSOLL_PLANNER_FLEET_BOUNDS_H_
#define PLIMSOLL_PLANNER_FLEET_BOUNDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/stop_check.h"
#include "planner/fleet/device_catalogue.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// The bytes that a decode step must read, and the possible steps per second.
// All numbers are ESTIMATED: the bound ignores computing, launching and
// everything else.
struct DecodeBound {
  int64_t weight_bytes;  // read once a step
  int64_t kv_bytes;      // read once a step for each sequence
  double steps_per_s;
  double tokens_per_s;  // all sequences together
};

// Bytes of the weights that every decode step reads, for any batch. Two kinds
// of weights are left out: embedding tables that are not also the output
// projection, from which a step gathers single rows, and experts that one token
// does not choose.
// Errors: kInvalidArgument and kOutOfRange, as RowBytes returns them.
absl::StatusOr<int64_t> WeightBytesPerStep(const ModelShape& shape);

// Decode steps: the number of sequences, and the tokens in their caches.
struct DecodeSteps {
  int64_t n_ctx;  // tokens in the cache of each sequence
  int64_t n_sequences;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
};

// The bound for these steps:
//   steps a second = bandwidth / (weights + n_sequences * kv),
// where KvCacheBytes counts kv: whole pages, rings of `window` cells.
// Errors: kInvalidArgument for a count or bandwidth that is not positive;
// kOutOfRange on overflow.
absl::StatusOr<DecodeBound> BoundDecode(const ModelShape& shape,
                                        const DecodeSteps& steps,
                                        int64_t bandwidth_bytes_per_s);

// Tokens of context, in whole pages, that one slot gains from a further GiB of
// memory while the plan's other regions stay as they are. Absent if context
// costs nothing more, because every layer keeps a ring.
std::optional<int64_t> TokensPerGib(const MemoryPlan& plan);

// The largest number of slots, up to LoadOptions::kMaxSlots, whose plan with
// options.n_ctx tokens each fits `budget_bytes`; 0 if not even one slot fits.
// options.n_slots is ignored.
// Errors: kInvalidArgument if options.n_ctx is absent; those of Layout.
absl::StatusOr<int64_t> MaxSessions(const ModelShape& shape,
                                    const PlanOptions& options,
                                    const DeviceProfile& profile,
                                    int64_t budget_bytes);

// The upper bounds for a model on a device.
struct DeviceBounds {
  MemoryPlan plan;       // fits, with options.n_ctx or the longest context
  int64_t max_sessions;  // slots of plan.n_ctx tokens
  std::optional<int64_t> tokens_per_gib;
  // The bound with all slots of the plan in use and their contexts full. Absent
  // if the bandwidth is not known.
  std::optional<DecodeBound> decode;
};

// A device that may take a model.
struct TargetDevice {
  DeviceProfile profile;
  int64_t budget_bytes;  // what may be used of its memory
  std::optional<int64_t> bandwidth_bytes_per_s;  // absent if it is not known
};

// Computes the bounds for one device; returns nothing if no plan fits it.
// Errors: those of Layout except kOutOfRange; kInvalidArgument for a bandwidth
// that is not positive.
absl::StatusOr<std::optional<DeviceBounds>> BoundsOn(
    const ModelShape& shape, const PlanOptions& options,
    const TargetDevice& device);

// A device of the catalogue that a model fits on.
struct FittingDevice {
  CatalogueDevice device;
  DeviceBounds bounds;
};

// The devices whose whole memory is enough, the smallest first.
// Errors: those of BoundsOn; those of `stop`, which is called for each device.
absl::StatusOr<std::vector<FittingDevice>> FittingDevices(
    const ModelShape& shape, const PlanOptions& options,
    const DeviceCatalogue& catalogue, StopCheck stop = NeverStop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_BOUNDS_H_
