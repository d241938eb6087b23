// The sizes of a plan's regions for one context, and the regions themselves.
#ifndef PLIMSOLL_PLANNER_PLAN_REGIONS_H_
#define PLIMSOLL_PLANNER_PLAN_REGIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/memory_plan.h"

namespace plimsoll::planner {

struct WeightLayout {
  std::vector<WeightPlacement> placements;  // by index in ModelShape::weights
  int64_t bytes;
};

// Places the weights in the file's order: matrices in the device's storage
// rule, vectors as float32, each aligned.
// Errors: kUnimplemented naming a tensor whose type the device cannot run;
// kInvalidArgument; kOutOfRange on overflow.
absl::StatusOr<WeightLayout> LayoutWeights(const ModelShape& shape,
                                           const DeviceProfile& profile);

// What a plan is computed from. Refers to objects that outlive it.
struct PlanInputs {
  const ModelShape& shape;
  const LoadOptions& options;
  const DeviceProfile& profile;
  int64_t weight_bytes;
};

// Errors: kInvalidArgument naming the field of the options that is out of
// range.
absl::Status ValidateOptions(const LoadOptions& options);

// Everything that depends on the context, in bytes.
struct RegionSizes {
  int64_t n_ctx;
  int64_t n_rows;
  int64_t n_sampled;
  KvBytes kv;
  WorkspacePlan workspace;
  std::vector<Region> regions;  // without formulas
  int64_t arena_bytes;
  int64_t total_bytes;
};

// Errors: kOutOfRange on overflow; kInvalidArgument.
absl::StatusOr<RegionSizes> SizeRegions(const PlanInputs& inputs,
                                        int64_t n_ctx);

// Fills in the regions' formulas.
void ExplainRegions(const PlanInputs& inputs, RegionSizes& sizes);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_PLAN_REGIONS_H_
