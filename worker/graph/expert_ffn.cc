#include "worker/graph/expert_ffn.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::SharedExpert;
using planner::StepBuffer;

ExpertFfn::ExpertFfn(const planner::Architecture& architecture, int64_t layer,
                     StepContext& context)
    : context_(context) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  norm_ = context.Vector(absl::StrCat(p, architecture.ffn_norm));
  const auto find = [&](const char* router, const char* suffix) {
    const auto experts = [&](const char* role) {
      return context.Experts(absl::StrCat(p, role, suffix, ".weight"));
    };
    return Experts{.router = context.Matrix(absl::StrCat(p, router)),
                   .routing = context.parameters().routing,
                   .n_used = context.inputs().shape->n_experts_used,
                   .gate = experts("ffn_gate"),
                   .up = experts("ffn_up"),
                   .down = experts("ffn_down")};
  };
  chosen_ = find("ffn_gate_inp.weight", "_exps");
  if (architecture.shared_expert == SharedExpert::kNone) return;
  shared_ = find("ffn_gate_inp_shexp.weight", "_shexp");
  shared_->routing = {.gate = kernels::RouterGate::kSigmoid};
  shared_->n_used = 1;
}

absl::string_view ExpertFfn::Missing(const planner::Architecture& architecture,
                                     const planner::LayerShape& layer) {
  if (layer.ffn != planner::FfnKind::kExperts) {
    return "experts beside a dense FFN";
  }
  if (architecture.biases == planner::BiasRule::kAll) {
    return "biases of experts";
  }
  if (architecture.activation == planner::GateActivation::kClampedSwish) {
    return "clamped activations";
  }
  if (architecture.has_post_norms) return "norms of experts' outputs";
  return "";
}

bool ExpertFfn::Reads(const planner::Architecture& architecture,
                      absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight",
      "ffn_down_exps.weight"};
  constexpr absl::string_view kSharedTensors[] = {
      "ffn_gate_inp_shexp.weight", "ffn_gate_shexp.weight",
      "ffn_up_shexp.weight", "ffn_down_shexp.weight"};
  return tensor == architecture.ffn_norm ||
         absl::c_linear_search(kTensors, tensor) ||
         (architecture.shared_expert != SharedExpert::kNone &&
          absl::c_linear_search(kSharedTensors, tensor));
}

absl::Status ExpertFfn::Add(const StepBatch& /*batch*/) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  if (shared_) {
    RETURN_IF_ERROR(AddExperts(*shared_, x));
    if (x.packed != nullptr) {
      RETURN_IF_ERROR(context_.backend().PackActivations(
          {.x = x.x,
           .n_rows = context_.n_rows(),
           .dim = context_.model_dim(),
           .out = context_.PackedInputs(context_.model_dim())}));
    }
  }
  return AddExperts(chosen_, x);
}

absl::Status ExpertFfn::AddExperts(const Experts& experts,
                                   const ProductInput& x) {
  kernels::Backend& backend = context_.backend();
  float* const logits = context_.Buffer(StepBuffer::kRouter);
  RETURN_IF_ERROR(context_.Project(x, {{experts.router, logits}}));
  const kernels::ExpertRows rows = kernels::ExpertRowsAt(
      context_.Bytes(StepBuffer::kRouting), context_.n_rows(),
      experts.router.rows, experts.n_used);
  RETURN_IF_ERROR(backend.RouteExperts(
      {.logits = logits, .to = rows, .routing = experts.routing}));
  float* const gated = context_.Buffer(StepBuffer::kGate);
  ASSIGN_OR_RETURN(
      const std::byte* const packed,
      backend.GatedExpertMatMul(
          {.rows = rows,
           .gate = experts.gate,
           .up = experts.up,
           .x = x.x,
           .packed = x.packed,
           .activation = context_.parameters().activation,
           .gathered = context_.Bytes(StepBuffer::kExpertRows),
           .out = gated,
           .up_out = context_.Buffer(StepBuffer::kUp),
           .packed_out = context_.PackedInputs(experts.gate.first.rows),
           .keeps_floats = IsFloatType(experts.down.first.dtype)}));
  return backend.ExpertSumMatMul(
      {.rows = rows,
       .w = experts.down,
       .x = gated,
       .packed = packed,
       .products = context_.Buffer(StepBuffer::kExpertRows),
       .out = context_.Residual(),
       .accumulate = true});
}

}  // namespace plimsoll::worker
