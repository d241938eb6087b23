// Where each weight lies: on the device, in host memory, or in the mapped file.
#ifndef PLIMSOLL_PLANNER_LAYOUT_WEIGHT_LAYOUT_H_
#define PLIMSOLL_PLANNER_LAYOUT_WEIGHT_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/checked_math.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

struct WeightBytes {
  int64_t device = 0;       // laid out as the device stores them
  int64_t host = 0;         // weights that stay in host memory
  int64_t cpu_experts = 0;  // experts for the CPU, laid out as it stores them
  int64_t mapped = 0;       // weights that stay in the mapped file
  int64_t file = 0;         // all but those in host memory, as in the file
};

struct WeightLayout {
  std::vector<WeightPlacement> placements;  // by index in ModelShape::weights
  // Experts that the CPU computes have their offsets among them here, and all
  // other weights -1. It is empty if there are no such experts.
  std::vector<WeightPlacement> cpu_placements;
  WeightBytes bytes;
};

// The places of the weights that are not on the device.
struct WeightHomes {
  HostWeights in_memory = {};        // in host memory
  bool are_tables_mapped = false;    // tables stay in the mapped file
  bool are_matrices_mapped = false;  // all matrices stay there
  // The CPU computes the experts of all layers before this one.
  int64_t cpu_experts_end = 0;

  friend bool operator==(const WeightHomes&, const WeightHomes&) = default;
};
// A number of layers that is not decided yet (n_cpu_experts) counts as none.
WeightHomes HomesOf(const ModelShape& shape, const PlanOptions& options);

// Whether weights of this kind stay in host memory.
bool StaysOnHost(WeightKind kind, const HostWeights& host);

// Places the weights in the file's order: matrices in the device's storage
// rule, vectors as float32, each aligned. Experts for the CPU are placed in the
// same way, by the rule of HostProfile. Weights that lie elsewhere stay there,
// in the file's layout.
// Errors: kInvalidArgument; kOutOfRange on overflow.
absl::StatusOr<WeightLayout> LayoutWeights(const ModelShape& shape,
                                           const DeviceProfile& profile,
                                           const WeightHomes& homes = {});

// The bytes of such a layout with every matrix in `dtype`, as WithWeightType
// has them.
absl::StatusOr<WeightBytes> WeightBytesAs(const ModelShape& shape,
                                          const DeviceProfile& profile,
                                          const WeightHomes& homes,
                                          DType dtype);

// The number, if it did not overflow. Errors: kOutOfRange.
absl::StatusOr<int64_t> PlanBytes(Checked value);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_WEIGHT_LAYOUT_H_
