// One model over several devices: which layers lie where.
#ifndef PLIMSOLL_PLANNER_LAYOUT_LAYER_SPLIT_H_
#define PLIMSOLL_PLANNER_LAYOUT_LAYER_SPLIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

inline constexpr int64_t kMaxSplitDevices = 64;
// Layers times devices: 256 layers on kMaxSplitDevices.
inline constexpr int64_t kMaxSplitLayers = 256 * kMaxSplitDevices;

// A device, in the order in which a token passes the devices; host memory is
// one more, usually the first or the last.
struct SplitDevice {
  DeviceProfile profile;
  int64_t budget_bytes;
};

struct SplitPart {
  int64_t device;  // index
  int64_t first_layer;
  int64_t n_layers;
  MemoryPlan plan;  // plan of these layers alone
};

struct SplitPlan {
  int64_t n_ctx;  // 0 if not even the smallest context fits
  bool fits;
  std::vector<SplitPart> parts;  // devices that hold layers, in order
  std::string n_ctx_reason;      // one sentence with numbers
  // These describe a split that does not fit: the layers that found no device,
  // the bytes that the last device lacks to take them, and changes with which
  // all layers find one. Each change was checked by splitting again; it has
  // what it saves on the last device.
  int64_t n_layers_left;
  int64_t missing_bytes;
  std::vector<Suggestion> suggestions;
};

// The layers [first, first + n) as a model of their own; the first part has the
// embedding, the last one the vocabulary projection (a tied one is then stored
// once on each of the two).
// Errors: kInvalidArgument if the range is empty or outside the model, or if a
// layer in it reads keys and values of one outside.
absl::StatusOr<ModelShape> SliceLayers(const ModelShape& shape, int64_t first,
                                       int64_t n);

// Places consecutive layers on the devices in order, each taking as many as
// fit, for the context asked for or the largest for which all layers find a
// device. Placing as many as fit is optimal, because a part never shrinks by
// taking a layer more.
// Errors: kInvalidArgument for no devices or more than kMaxSplitDevices, and
// beyond kMaxSplitLayers; those of Layout; what `stop` says, which is asked for
// each part that is tried.
absl::StatusOr<SplitPlan> SplitLayers(const ModelShape& shape,
                                      const PlanOptions& options,
                                      const std::vector<SplitDevice>& devices,
                                      StopCheck stop = NeverStop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_LAYER_SPLIT_H_
