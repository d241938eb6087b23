#include "worker/graph/expert_ffn.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::SharedExpert;

ExpertFfn::ExpertFfn(const planner::Architecture& architecture, int64_t layer,
                     StepContext& context)
    : context_(context),
      norm_(context.Vector(
          absl::StrCat("blk.", layer, ".", architecture.ffn_norm))),
      chosen_(
          {.prefix = absl::StrCat("blk.", layer, "."),
           .router = "ffn_gate_inp",
           .suffix = "_exps"},
          {.routing = context.parameters().routing,
           .n_used = context.inputs().shape->n_experts_used,
           .bias = FindVector(context.inputs(),
                              absl::StrCat("blk.", layer, ".exp_probs_b.bias")),
           .weights_inputs = architecture.weights_inputs},
          context) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  constexpr absl::string_view kSuffix = "_shexp";
  if (context.Layer(layer).shared_ffn_dim == 0) return;
  if (architecture.shared_expert != SharedExpert::kGated) {
    shared_.emplace(p, kSuffix, context);
  } else {
    gated_shared_.emplace(
        ExpertNames{
            .prefix = p, .router = "ffn_gate_inp_shexp", .suffix = kSuffix},
        ExpertChoice{.routing = {.gate = kernels::RouterGate::kSigmoid},
                     .n_used = 1},
        context);
  }
}

absl::string_view ExpertFfn::Missing(
    const planner::Architecture& architecture) {
  if (architecture.has_post_norms) return "norms of experts' outputs";
  if (architecture.has_parallel_ffn) return "experts beside attention";
  return "";
}

bool ExpertFfn::Reads(const planner::Architecture& architecture,
                      absl::string_view tensor) {
  constexpr absl::string_view kSharedTensors[] = {
      "ffn_gate_inp_shexp.weight", "ffn_gate_shexp.weight",
      "ffn_up_shexp.weight", "ffn_down_shexp.weight"};
  return tensor == architecture.ffn_norm || ExpertNetwork::Reads(tensor) ||
         (architecture.shared_expert != SharedExpert::kNone &&
          absl::c_linear_search(kSharedTensors, tensor));
}

absl::Status ExpertFfn::Add(const StepBatch& /*batch*/) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  RETURN_IF_ERROR(AddShared(x));
  RETURN_IF_ERROR(chosen_.Route(x));
  return chosen_.Compute(x, {.out = context_.Residual(), .accumulate = true});
}

absl::Status ExpertFfn::AddShared(const ProductInput& x) {
  float* const out = context_.Residual();
  if (shared_) {
    RETURN_IF_ERROR(shared_->Compute(x, {.out = out, .accumulate = true}));
  } else if (gated_shared_) {
    RETURN_IF_ERROR(gated_shared_->Route(x));
    RETURN_IF_ERROR(
        gated_shared_->Compute(x, {.out = out, .accumulate = true}));
  } else {
    return absl::OkStatus();
  }
  return context_.AsInput(context_.Normed(), context_.model_dim()).status();
}

}  // namespace plimsoll::worker
