#include "worker/graph/expert_network.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

ExpertNetwork::ExpertNetwork(const ExpertNames& names,
                             const ExpertChoice& choice, StepContext& context)
    : context_(context),
      router_(context.Matrix(absl::StrCat(names.prefix, names.router))),
      choice_(choice) {
  const auto experts = [&](const char* role) {
    return context.Experts(
        absl::StrCat(names.prefix, role, names.suffix, ".weight"));
  };
  gate_ = experts("ffn_gate");
  up_ = experts("ffn_up");
  down_ = experts("ffn_down");
}

bool ExpertNetwork::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight",
      "ffn_down_exps.weight", "exp_probs_b.bias"};
  return absl::c_linear_search(kTensors, tensor);
}

kernels::ExpertRows ExpertNetwork::Rows() const {
  return kernels::ExpertRowsAt(context_.Bytes(StepBuffer::kRouting),
                               context_.n_rows(), router_.rows, choice_.n_used);
}

absl::Status ExpertNetwork::Route(const ProductInput& x) {
  float* const logits = context_.Buffer(StepBuffer::kRouter);
  RETURN_IF_ERROR(context_.Project(x, {{router_, logits}}));
  return context_.backend().RouteExperts(
      {.logits = logits,
       .to = Rows(),
       .routing = choice_.routing,
       .choice_bias = choice_.bias,
       .expert_scales = choice_.expert_scales});
}

absl::Status ExpertNetwork::Compute(const ProductInput& x, float* out,
                                    bool accumulate) {
  kernels::Backend& backend = context_.backend();
  const kernels::ExpertRows rows = Rows();
  float* const gated = context_.Buffer(StepBuffer::kGate);
  ASSIGN_OR_RETURN(const std::byte* const packed,
                   backend.GatedExpertMatMul(
                       {.rows = rows,
                        .gate = gate_,
                        .up = up_,
                        .x = x.x,
                        .packed = x.packed,
                        .activation = context_.parameters().activation,
                        .gathered = context_.Bytes(StepBuffer::kExpertRows),
                        .out = gated,
                        .up_out = context_.Buffer(StepBuffer::kUp),
                        .packed_out = context_.PackedInputs(gate_.first.rows),
                        .keeps_floats = IsFloatType(down_.first.dtype)}));
  return backend.ExpertSumMatMul(
      {.rows = rows,
       .w = down_,
       .x = gated,
       .packed = packed,
       .products = context_.Buffer(StepBuffer::kExpertRows),
       .out = out,
       .accumulate = accumulate});
}

}  // namespace plimsoll::worker
