#include "worker/graph/low_rank_branch.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

LowRankBranch::LowRankBranch(int64_t layer, const float* norm,
                             StepContext& context)
    : context_(context), norm_(norm) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  left_ = context.Matrix(p + "laurel_l.weight");
  right_ = context.Matrix(p + "laurel_r.weight");
  post_norm_ = context.Vector(p + "laurel_post_norm.weight");
}

bool LowRankBranch::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "laurel_l.weight", "laurel_r.weight", "laurel_post_norm.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status LowRankBranch::Add(const ProductInput& x) {
  float* const low = context_.Buffer(StepBuffer::kBranch);
  RETURN_IF_ERROR(context_.Project(x, {{left_, low}}));
  ASSIGN_OR_RETURN(const ProductInput low_input,
                   context_.AsInput(low, left_.rows));
  RETURN_IF_ERROR(context_.Project(low_input, {{right_, context_.Normed()}}));
  // The norm of before once more, which adds `x`.
  context_.AddNormed(context_.Residual(), norm_);
  RETURN_IF_ERROR(context_.FinishResidual());
  context_.AddNormed(context_.Normed(), post_norm_);
  return context_.FinishResidual();
}

}  // namespace plimsoll::worker
