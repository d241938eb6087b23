#include "worker/graph/gated_ffn.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

GatedFfn::GatedFfn(const planner::Architecture& architecture, int64_t layer,
                   StepContext& context)
    : context_(context) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  if (architecture.has_pre_norms) {
    norm_ = context.Vector(absl::StrCat(p, architecture.ffn_norm));
  }
  gate_ = context.Matrix(p + "ffn_gate.weight");
  up_ = context.Matrix(p + "ffn_up.weight");
  end_.w = context.Matrix(p + "ffn_down.weight");
  const auto bias = [&](absl::string_view name) {
    return FindVector(context.inputs(), absl::StrCat(p, name));
  };
  gate_bias_ = bias("ffn_gate.bias");
  up_bias_ = bias("ffn_up.bias");
  end_.bias = bias("ffn_down.bias");
  if (architecture.has_post_norms) {
    end_.post_norm = context.Vector(p + "post_ffw_norm.weight");
  }
}

absl::string_view GatedFfn::Missing(const planner::Architecture& architecture) {
  if (architecture.activation == planner::GateActivation::kClampedSwish) {
    return "clamped activations";
  }
  return "";
}

bool GatedFfn::Reads(const planner::Architecture& architecture,
                     absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"ffn_gate.weight", "ffn_up.weight",
                                            "ffn_down.weight", "ffn_gate.bias",
                                            "ffn_up.bias",     "ffn_down.bias"};
  return tensor == architecture.ffn_norm ||
         absl::c_linear_search(kTensors, tensor) ||
         (architecture.has_post_norms && tensor == "post_ffw_norm.weight");
}

absl::Status GatedFfn::Add(const StepBatch& /*batch*/) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  ASSIGN_OR_RETURN(const ProductInput gated, Gated(x));
  return context_.AddToResidual(gated, end_);
}

absl::Status GatedFfn::Compute(float* out) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  ASSIGN_OR_RETURN(const ProductInput gated, Gated(x));
  RETURN_IF_ERROR(context_.Project(gated, {{end_.w, out}}));
  return context_.AddBiases({{end_.bias, out, end_.w.rows}});
}

absl::StatusOr<ProductInput> GatedFfn::Gated(const ProductInput& x) {
  float* const gate = context_.Buffer(StepBuffer::kGate);
  float* const up = context_.Buffer(StepBuffer::kUp);
  const kernels::Activation activation = context_.parameters().activation;
  std::byte* const packed = context_.PackedInputs(gate_.rows);
  if (gate_bias_ == nullptr && up_bias_ == nullptr) {
    ASSIGN_OR_RETURN(const std::byte* const at,
                     context_.backend().GatedMatMul(
                         {.gate = context_.ProductOf(x, {gate_, gate}),
                          .up = context_.ProductOf(x, {up_, up}),
                          .activation = activation,
                          .packed = packed,
                          .keeps_floats = IsFloatType(end_.w.dtype)}));
    return ProductInput{gate, at};
  }
  RETURN_IF_ERROR(context_.Project(x, {{gate_, gate}, {up_, up}}));
  RETURN_IF_ERROR(context_.AddBiases(
      {{gate_bias_, gate, gate_.rows}, {up_bias_, up, up_.rows}}));
  RETURN_IF_ERROR(
      context_.backend().GatedActivation({.gate = gate,
                                          .up = up,
                                          .out = gate,
                                          .n_rows = context_.n_rows(),
                                          .dim = gate_.rows,
                                          .activation = activation,
                                          .packed = packed}));
  return ProductInput{gate, packed};
}

}  // namespace plimsoll::worker
