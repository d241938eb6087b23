#include "worker/graph/gated_and_expert_ffn.h"

#include <cmath>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

GatedAndExpertFfn::GatedAndExpertFfn(const planner::Architecture& architecture,
                                     int64_t layer, StepContext& context)
    : context_(context),
      dense_(architecture, layer, context),
      experts_({.prefix = absl::StrCat("blk.", layer, "."),
                .router = "ffn_gate_inp",
                .suffix = "_exps"},
               {.routing = context.parameters().routing,
                .n_used = context.inputs().shape->n_experts_used},
               context) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  router_norm_ = context.Vector(p + "ffn_gate_inp.scale");
  experts_norm_ = context.Vector(p + "pre_ffw_norm_2.weight");
  dense_post_norm_ = context.Vector(p + "post_ffw_norm_1.weight");
  experts_post_norm_ = context.Vector(p + "post_ffw_norm_2.weight");
  post_norm_ = context.Vector(p + "post_ffw_norm.weight");
}

absl::string_view GatedAndExpertFfn::Missing(
    const planner::Architecture& architecture) {
  if (architecture.has_post_norms) return "";
  return "experts beside a dense FFN and no norm of their sum";
}

bool GatedAndExpertFfn::Reads(const planner::Architecture& architecture,
                              absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight",
      "post_ffw_norm_2.weight"};
  return absl::c_linear_search(kTensors, tensor) ||
         GatedFfn::Reads(architecture, tensor) || ExpertNetwork::Reads(tensor);
}

absl::Status GatedAndExpertFfn::Add(const StepBatch& /*batch*/) {
  const float root = 1 / std::sqrt(static_cast<float>(context_.model_dim()));
  float* const sum = context_.Buffer(StepBuffer::kFfnSum);
  ASSIGN_OR_RETURN(const ProductInput routed,
                   context_.SublayerInput(router_norm_, root));
  RETURN_IF_ERROR(experts_.Route(routed));
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(experts_norm_));
  RETURN_IF_ERROR(experts_.Compute(x, {.out = sum}));
  RETURN_IF_ERROR(NormOutput(sum, experts_post_norm_, {.out = sum}));
  float* const dense = context_.Normed();
  RETURN_IF_ERROR(dense_.Compute(dense));
  RETURN_IF_ERROR(
      NormOutput(dense, dense_post_norm_, {.out = sum, .accumulate = true}));
  context_.AddNormed(sum, post_norm_);
  return absl::OkStatus();
}

absl::Status GatedAndExpertFfn::NormOutput(const float* output,
                                           const float* weight,
                                           const ProductOutput& to) {
  return context_.backend().RmsNorm({.x = output,
                                     .weight = weight,
                                     .out = to.out,
                                     .n_rows = context_.n_rows(),
                                     .dim = context_.model_dim(),
                                     .eps = context_.parameters().rms_eps,
                                     .accumulate = to.accumulate});
}

}  // namespace plimsoll::worker
