// What an MTP head adds to a plan: its weights, the rows that it reads, and the
// keys and values of its layer.
#ifndef PLIMSOLL_PLANNER_LAYOUT_MTP_LAYOUT_H_
#define PLIMSOLL_PLANNER_LAYOUT_MTP_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

// Everything that does not depend on the context.
struct MtpLayout {
  ModelShape shape;                      // MtpShapeOf the model's
  std::vector<WeightPlacement> weights;  // by index in shape.weights
  int64_t weight_bytes;
  KvModel kv;
  StepWidths widths;  // widths of the layer, and of what joins its two inputs
};

// Lays out the head of a model. Its weights lie on the device, whatever the
// options say about the model's weights.
// Errors: kInvalidArgument if the model has no such head, or if the options
// leave no place for guesses or plan for another engine; those of
// LayoutWeights, KvModel::Create and WidthsOf.
absl::StatusOr<MtpLayout> LayoutMtp(const ModelShape& shape,
                                    const PlanOptions& options,
                                    const DeviceProfile& profile,
                                    const KvRules& rules);

// The plan as the head sees it: the same arena, in which "weights" is the
// beginning of the region `mtp`, and "kv_full" is the region `kv_mtp`. The rest
// of `mtp` is for the rows that the head reads, f32 [n_rows, model_dim].
// Requires a plan with that head.
MemoryPlan MtpPlanOf(const MemoryPlan& plan);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_MTP_LAYOUT_H_
