#include "worker/graph/expert_network.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

ExpertNetwork::ExpertNetwork(const ExpertNames& names,
                             const ExpertChoice& choice, StepContext& context)
    : context_(context),
      router_(
          context.Matrix(absl::StrCat(names.prefix, names.router, ".weight"))),
      choice_(choice) {
  const auto experts = [&](const char* role) {
    return context.Experts(
        absl::StrCat(names.prefix, role, names.suffix, ".weight"));
  };
  up_ = experts("ffn_up");
  // Without gates, up is its own, which is multiplied twice.
  const bool has_gates = context.Has(
      absl::StrCat(names.prefix, "ffn_gate", names.suffix, ".weight"));
  gate_ = has_gates ? experts("ffn_gate") : up_;
  down_ = experts("ffn_down");
  const auto bias = [&](absl::string_view role, absl::string_view suffix) {
    return FindVector(context.inputs(),
                      absl::StrCat(names.prefix, role, suffix, ".bias"));
  };
  router_bias_ = bias(names.router, "");
  gate_bias_ = bias("ffn_gate", names.suffix);
  up_bias_ = bias("ffn_up", names.suffix);
  down_bias_ = bias("ffn_down", names.suffix);
}

bool ExpertNetwork::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "ffn_gate_inp.weight",  "ffn_gate_exps.weight", "ffn_up_exps.weight",
      "ffn_down_exps.weight", "exp_probs_b.bias",     "ffn_gate_inp.bias",
      "ffn_gate_exps.bias",   "ffn_up_exps.bias",     "ffn_down_exps.bias"};
  return absl::c_linear_search(kTensors, tensor);
}

kernels::ExpertRows ExpertNetwork::Rows() const {
  return kernels::ExpertRowsAt(context_.Bytes(StepBuffer::kRouting),
                               context_.n_rows(), router_.rows, choice_.n_used);
}

absl::Status ExpertNetwork::Route(const ProductInput& x) {
  float* const logits = context_.Buffer(StepBuffer::kRouter);
  RETURN_IF_ERROR(context_.Project(x, {{router_, logits}}));
  RETURN_IF_ERROR(context_.AddBiases({{router_bias_, logits, router_.rows}}));
  return context_.backend().RouteExperts({.logits = logits,
                                          .to = Rows(),
                                          .routing = choice_.routing,
                                          .choice_bias = choice_.bias});
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
                        .keeps_floats = IsFloatType(down_.first.dtype),
                        .gate_bias = gate_bias_,
                        .up_bias = up_bias_,
                        .weights_inputs = choice_.weights_inputs}));
  return backend.ExpertSumMatMul(
      {.rows = rows,
       .w = down_,
       .x = gated,
       .packed = packed,
       .products = context_.Buffer(StepBuffer::kExpertRows),
       .out = out,
       .accumulate = accumulate,
       .bias = down_bias_,
       .weights_outputs = !choice_.weights_inputs});
}

}  // namespace plimsoll::worker
