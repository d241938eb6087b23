#include "planner/layout/mtp_layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/layout/weight_layout.h"

namespace plimsoll::planner {
namespace {

absl::Status CheckMtp(const ModelShape& shape, const PlanOptions& options) {
  if (!shape.mtp) {
    return absl::InvalidArgumentError(absl::StrCat(
        "draft_source is mtp, but this model has no MTP head: there is no "
        "tensor \"blk.",
        shape.n_layers,
        ".nextn.eh_proj.weight\"; use a file that has it, or prompt lookup"));
  }
  if (options.n_draft == 0) {
    return absl::InvalidArgumentError(
        "draft_source is mtp and n_draft is 0: an MTP head is of use for 1 to "
        "15 guesses a step");
  }
  if (options.engine.policy != ReservePolicy::kExact) {
    return absl::InvalidArgumentError(
        "draft_source is mtp, which no plan for another engine takes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MtpLayout> LayoutMtp(const ModelShape& shape,
                                    const PlanOptions& options,
                                    const DeviceProfile& profile,
                                    const KvRules& rules) {
  RETURN_IF_ERROR(CheckMtp(shape, options));
  MtpLayout mtp;
  mtp.shape = MtpShapeOf(shape);
  if (options.engine.weight_type) {
    ASSIGN_OR_RETURN(
        const WeightBytes bytes,
        WeightBytesAs(mtp.shape, profile, {}, *options.engine.weight_type));
    mtp.weight_bytes = bytes.device;
  } else {
    ASSIGN_OR_RETURN(WeightLayout weights,
                     LayoutWeights(mtp.shape, profile, {}));
    mtp.weights = std::move(weights.placements);
    mtp.weight_bytes = weights.bytes.device;
  }
  ASSIGN_OR_RETURN(mtp.kv, KvModel::Create(mtp.shape, options.k_type,
                                           options.v_type, rules));
  ASSIGN_OR_RETURN(mtp.widths,
                   WidthsOf(mtp.shape, options.k_type, options.v_type));
  // A row of the model and an embedding lie side by side in kGate.
  mtp.widths.ffn = std::max(mtp.widths.ffn, 2 * shape.model_dim);
  return mtp;
}

MemoryPlan MtpPlanOf(const MemoryPlan& plan) {
  MemoryPlan head = plan;
  head.kv = plan.mtp_kv;
  head.weights = plan.mtp_weights;
  head.regions.clear();
  int64_t weights_end = 0;
  for (const WeightPlacement& weight : plan.mtp_weights) {
    weights_end = std::max(weights_end, weight.offset + weight.bytes);
  }
  for (const Region& region : plan.regions) {
    if (region.name == "mtp") {
      head.regions.push_back(region);
      head.regions.back().name = "weights";
      head.regions.back().bytes =
          AlignUp(weights_end, region.alignment).Get().value_or(0);
    } else if (region.name == "kv_mtp") {
      head.regions.push_back(region);
      head.regions.back().name = "kv_full";
    } else if (region.name == "workspace" || region.name == "logits") {
      head.regions.push_back(region);
    }
  }
  return head;
}

}  // namespace plimsoll::planner
